// Package networktest builds aether-net for the tests of drivers that run it. What is
// built for users is built by make.
package networktest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"aether/network"
)

// shared is the service of all drivers of a test program.
var shared struct {
	sync.Mutex
	service *network.Service
}

// Service is one for all drivers of a test program, which believes what Host serves. It ends
// with that, or by Close.
func Service() *network.Service {
	shared.Lock()
	defer shared.Unlock()
	if shared.service == nil {
		believed, err := roots()
		if err != nil {
			panic(err) // there is no randomness
		}
		shared.service = network.New(network.Options{Roots: believed})
	}
	return shared.service
}

// Close ends the service, for tests that want nothing to be left.
func Close() error {
	shared.Lock()
	defer shared.Unlock()
	if shared.service == nil {
		return nil
	}
	err := shared.service.Close()
	shared.service = nil
	return err
}

// variable is network.PathVariable, which only Linux has.
const variable = "AETHER_NET"

// Build builds the program into dir, which others must be able to pass through, and lets
// services find it, unless the caller's environment names one already.
func Build(dir string) error {
	if os.Getenv(variable) != "" {
		return nil
	}
	// In the module of its own: others that use this need not know what it is made of.
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "aether").Output()
	if err != nil {
		return fmt.Errorf("find the module of aether-net: %w", err)
	}
	path := filepath.Join(dir, "aether-net")
	cmd := exec.Command("go", "build", "-C", strings.TrimSpace(string(module)), "-trimpath", "-ldflags=-s -w", "-o", path, "./cmd/aether-net")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build aether-net: %w\n%s", err, out)
	}
	return os.Setenv(variable, path)
}
