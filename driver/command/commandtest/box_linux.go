package commandtest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aether/guest"
	"aether/sandbox"
)

// Create makes a sandbox that ends with the test.
func Create(t *testing.T, driver sandbox.Driver, spec sandbox.Spec) sandbox.Instance {
	t.Helper()
	t.Cleanup(func() {
		if err := driver.(sandbox.Closer).Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	instance, err := driver.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return instance
}

// Sh runs a script and gives what it wrote.
func Sh(t *testing.T, instance sandbox.Instance, script string) (string, guest.Status) {
	t.Helper()
	client := guest.NewClient(instance.Dial, guest.ClientOptions{})
	defer client.Close()
	var out bytes.Buffer
	p, err := client.Start(t.Context(), guest.Cmd{Path: "/bin/sh", Args: []string{"-c", script}, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	status, err := p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out.String()), status
}

// Below gives the living processes under this program, by their names.
func Below(t *testing.T) map[string][]int {
	t.Helper()
	under, found := map[int]bool{os.Getpid(): true}, map[string][]int{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for range 5 { // as deep as sandboxes are
		for _, file := range stats {
			var pid, parent int
			var name, state string
			text, err := os.ReadFile(file)
			if err != nil {
				continue // it has ended
			}
			if _, err := fmt.Sscanf(string(text), "%d (%s %s %d", &pid, &name, &state, &parent); err != nil || !under[parent] || under[pid] || state == "Z" {
				continue
			}
			under[pid] = true
			name = strings.TrimSuffix(name, ")")
			found[name] = append(found[name], pid)
		}
	}
	return found
}
