package qemu

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"aether/driver/vmm"
	"aether/guest/pid1"
	"aether/sandbox"
)

// templatesIn lists the templates of a driver, and what is on its way to be one.
func templatesIn(t *testing.T, state string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(state, "templates", "*"))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, name := range list {
		if filepath.Base(name) != "work" {
			found = append(found, name)
		}
	}
	work, err := filepath.Glob(filepath.Join(state, "templates", "work", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return append(found, work...)
}

// Machines that start at the same time, from a template that none of them had,
// have nothing in common but it.
func TestMachinesOfATemplate(t *testing.T) {
	state := freshState(t)
	d := driverWith(t, func(o *Options) { o.StateDir = state })
	const count = 3
	var said [count]string
	var work sync.WaitGroup
	for n := range count {
		work.Go(func() { said[n] = one(t, d, fmt.Sprint("machine-", n)) })
	}
	work.Wait()
	for n, text := range said {
		for _, other := range said[:n] {
			if text == other {
				t.Errorf("two machines draw the same random numbers: %q", text)
			}
		}
	}
	if list := templatesIn(t, state); len(list) != 1 {
		t.Errorf("templates: %q", list)
	}
}

// one makes a machine and gives the first random numbers that it draws.
func one(t *testing.T, d *vmm.Driver, id string) string {
	spec := testSpec()
	spec.ID = id
	i, err := d.Create(t.Context(), spec)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer i.Destroy(context.Background())
	random := run(t, i, "cat /proc/sys/kernel/random/uuid /proc/sys/kernel/random/boot_id")
	if got := run(t, i, "hostname; ls /tmp /root; echo own > /tmp/own; echo own > /root/own"); got != id+"\n/root:\n\n/tmp:" {
		t.Errorf("%s is not as it should be: %q", id, got)
	}
	wantTime(t, i)
	// Whoever reaches a machine cannot make it another's.
	if err := pid1.Configure(t.Context(), i.Dial, pid1.Configuration{Secret: make([]byte, 64), Now: time.Now()}); err == nil {
		t.Errorf("%s was configured twice", id)
	}
	return random
}

// A QEMU that a guest has taken over has the descriptor of what others start from.
func TestTemplateCannotBeChanged(t *testing.T) {
	d := driverWith(t, func(*Options) {})
	i, err := d.Create(t.Context(), testSpec())
	if err != nil {
		t.Fatal(err)
	}
	defer i.Destroy(context.Background())
	pid := onlyMachine(t)
	tried := 0
	files, err := filepath.Glob(fmt.Sprintf("/proc/%s/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if target, err := os.Readlink(name); err != nil || !strings.HasPrefix(target, "/memfd:memory") {
			continue
		}
		file, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt([]byte("x"), 0); err == nil || file.Truncate(0) == nil {
			t.Error("a machine can change the template that it came from")
		}
		file.Close()
		tried++
	}
	if tried == 0 {
		t.Errorf("no template is open in %v", files)
	}
}

func TestColdMachine(t *testing.T) {
	state := freshState(t)
	d := driverWith(t, func(o *Options) { o.Cold, o.StateDir = true, state })
	if one(t, d, "cold") == "" {
		t.Error("it draws no random numbers")
	}
	if list := templatesIn(t, state); len(list) != 0 {
		t.Errorf("templates: %q", list)
	}
}

// A template that is broken fails one machine, with the reason, and is gone.
func TestBrokenTemplate(t *testing.T) {
	state := freshState(t)
	one(t, driverWith(t, func(o *Options) { o.StateDir = state }), "first")
	d := driverWith(t, func(o *Options) { o.StateDir = state })
	list := templatesIn(t, state)
	if len(list) != 1 {
		t.Fatalf("templates: %q", list)
	}
	if err := os.WriteFile(filepath.Join(list[0], "state"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, d, sandbox.Unavailable, "qemu-kvm says")
	one(t, d, "second")
}
