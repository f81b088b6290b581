package drivertest

import (
	"fmt"
	"os"
	"testing"

	"aether/sandbox"
)

// Variables by which the test binary is told to play a program that is killed.
const (
	roleVariable  = "AETHER_DRIVERTEST_DIR"
	markVariable  = "AETHER_DRIVERTEST_MARK"
	imageVariable = "AETHER_DRIVERTEST_IMAGE"
)

// Main runs the tests of a driver, or plays the program that is killed.
func Main(m *testing.M, new func(dir string) sandbox.Driver) int {
	if played, code := Play(new); played {
		return code
	}
	return m.Run()
}

// Play plays the program that is killed, if this process was started for that.
func Play(new func(dir string) sandbox.Driver) (played bool, code int) {
	dir := os.Getenv(roleVariable)
	if dir == "" {
		return false, 0
	}
	fmt.Fprintln(os.Stderr, churn(new(dir)))
	return true, 1
}
