package examplestest

import (
	"regexp"
	"strings"
	"testing"
)

// TestExampleDriver holds the driver of docs/adding-a-driver.md to the contract, by
// its own tests.
func TestExampleDriver(t *testing.T) {
	out := goCommand(t, "test", "-count=1", "-v", "./unshare")
	if skipped := regexp.MustCompile(`(?m)^.*\n--- SKIP: TestConformance `).FindString(out); skipped != "" {
		t.Skip(strings.TrimSpace(skipped))
	}
	if !strings.Contains(out, "\n--- PASS: TestConformance ") {
		t.Errorf("the suite did not run:\n%s", out)
	}
}
