package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// config is what the programs in a machine are told.
type config struct {
	Host string `json:"host"`
	Jobs []job  `json:"jobs"`
	// Pace is how much slower than real the machine is.
	Pace int `json:"pace"`
	// Profile is of AppArmor, for ordinary users.
	Profile string `json:"profile,omitempty"`
}

// payload is what machines of one architecture are given beside their root: the
// programs and tests of this tree, static, so that they need nothing there.
type payload struct {
	dir  string
	arch string
}

// templateCode is what the README calls setup.py.
const templateCode = `class Model:
    def predict(self, values):
        return [6 * v for v in values]

model = Model()
`

func (p payload) build(ctx context.Context, steps []string) error {
	strip := []string{"-trimpath", "-ldflags", "-s -w"}
	programs := []string{"./cmd/aether", "./cmd/aether-guest", "./cmd/aether-net", "./driver/drivertest/neighbour"}
	if slices.Contains(steps, stepBench) {
		programs = append(programs, "./cmd/bench")
	}
	if err := p.compile(ctx, append(append(append([]string{"build"}, strip...), "-o", p.dir+"/bin/"), programs...)); err != nil {
		return err
	}
	if err := p.compile(ctx, append(append([]string{"build"}, strip...), "-o", p.dir+"/hosttest", "./cmd/hosttest")); err != nil {
		return err
	}
	for _, folder := range testFolders(steps) {
		if err := p.addTests(ctx, folder, strip); err != nil {
			return err
		}
	}
	unit, err := os.ReadFile("systemd/aether.service")
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(p.dir, "aether.service"), unit, 0o644),
		os.WriteFile(filepath.Join(p.dir, "setup.py"), []byte(templateCode), 0o644))
}

func (p payload) addTests(ctx context.Context, folder string, strip []string) error {
	dir := filepath.Join(p.dir, "tests", folder)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	program := filepath.Join(dir, filepath.Base(folder)+".test")
	if err := p.compile(ctx, append(append([]string{"test", "-c", "-vet=off"}, strip...), "-o", program, "./"+folder)); err != nil {
		return err
	}
	data := filepath.Join(folder, "testdata")
	if _, err := os.Stat(data); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return os.CopyFS(filepath.Join(dir, "testdata"), os.DirFS(data))
}

func (p payload) compile(ctx context.Context, args []string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+p.arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", args[0], err, out)
	}
	return nil
}

// disk writes the payload and what this machine is told as a file system.
func (p payload) disk(ctx context.Context, c config, name string) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(p.dir, "config.json"), text, 0o644); err != nil {
		return err
	}
	size, err := sizeOf(p.dir)
	if err != nil {
		return err
	}
	program, err := need("mke2fs")
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, program, "-q", "-t", "ext4", "-O", "^has_journal", "-L", labLabel, "-d", p.dir, name, fmt.Sprintf("%dM", size>>20+64)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mke2fs: %w\n%s", err, out)
	}
	return nil
}

func sizeOf(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	})
	return total, err
}
