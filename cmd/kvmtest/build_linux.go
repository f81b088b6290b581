package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"aether/image"
	"aether/image/disk"
	"aether/image/initramfs"
	"aether/image/kernel"
	"aether/internal/testroot"
	"aether/sandbox"
)

// Paths inside the lab.
const (
	labDir      = "/lab"
	guestPath   = labDir + "/aether-guest"
	netPath     = labDir + "/aether-net"
	monitorPath = labDir + "/aether-vmm"
	neighbour   = labDir + "/neighbour"
	kernelRoot  = labDir + "/kernel"
	imageDir    = labDir + "/image"
	configFile  = "/lab.json"
	binaryDir   = "/usr/local/bin"
	jailerName  = "jailer"
)

// labModules are what the lab's kernel needs for its disk, and for machines.
var labModules = []string{"virtio_pci", "virtio_blk", "erofs", "overlay", "kvm_amd", "vhost_vsock", "tun", "loop"}

// config is what the lab's init is told.
type config struct {
	Modules []string `json:"modules"`
	Command []string `json:"command"`
	Env     []string `json:"env"`
}

// lab is everything that the outer machine boots from.
type lab struct {
	options
	dir    string // of what is only for this run
	kernel kernel.Kernel
	disk   *os.File
	guest  *initramfs.Guest
}

func (l *lab) close() {
	if l.disk != nil {
		l.disk.Close()
	}
	_ = os.RemoveAll(l.dir) // in the directory for temporary files
}

func build(ctx context.Context, o options, progress io.Writer) (_ *lab, err error) {
	if o.state, err = stateDir(o.state); err != nil {
		return nil, err
	}
	l := &lab{options: o}
	if l.dir, err = os.MkdirTemp("", "kvmtest-"); err != nil {
		return nil, err
	}
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"find a kernel", l.findKernel},
		{"build the tests and the guest service", l.compile},
		{"make the disk", l.makeDisk},
		{"make the initramfs", l.makeInitramfs},
	} {
		fmt.Fprintln(progress, "kvmtest:", step.what)
		if err := step.do(ctx); err != nil {
			l.close()
			return nil, err
		}
	}
	return l, nil
}

func stateDir(named string) (string, error) {
	if named != "" {
		return filepath.Abs(named)
	}
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "aether-kvmtest"), err
}

func (l *lab) findKernel(ctx context.Context) (err error) {
	installed := filepath.Join(l.state, "kernels")
	l.kernel, err = kernel.Find(kernel.Places{Named: l.options.kernel, Installed: installed})
	if sandbox.ClassOf(err) == sandbox.NotFound && l.options.kernel == "" {
		l.kernel, err = kernel.Install(ctx, installed)
	}
	return err
}

// root is the layer of the lab's disk that is made for this run.
func (l *lab) root() string { return filepath.Join(l.dir, "root") }

// compile builds what runs inside, static, so that it needs nothing there.
func (l *lab) compile(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(l.root(), labDir), 0o755); err != nil {
		return err
	}
	commands := [][]string{
		{"build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(l.root(), guestPath), "./cmd/aether-guest"},
		{"build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(l.root(), netPath), "./cmd/aether-net"},
		{"build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(l.root(), neighbour), "./driver/drivertest/neighbour"},
		{"build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(l.root(), monitorPath), "./cmd/aether-vmm"},
		{"build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(l.dir, "init"), "./cmd/kvmtest"},
	}
	seen := make(map[string]bool)
	for _, p := range l.parts() {
		if !seen[p.pkg] {
			commands = append(commands, []string{"test", "-c", "-o", filepath.Join(l.root(), program(p.pkg)), p.pkg})
		}
		seen[p.pkg] = true
	}
	for _, args := range commands {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w\n%s", args[0], err, out)
		}
	}
	return nil
}

// makeDisk puts the lab's programs, the driver's, and an image for its sandboxes
// on one disk.
func (l *lab) makeDisk(ctx context.Context) error {
	system, small := filepath.Join(l.dir, "system"), filepath.Join(l.dir, "image")
	if err := errors.Join(os.Mkdir(system, 0o755), os.Mkdir(small, 0o755)); err != nil {
		return err
	}
	if err := testroot.Make(system, append(append([]string(nil), testroot.Shell...), programs[l.driver]...), firmware[l.driver]); err != nil {
		return err
	}
	if err := testroot.Make(small, testroot.Shell, nil); err != nil {
		return err
	}
	for name, program := range l.binaries() {
		if err := copyProgram(program, filepath.Join(l.root(), binaryDir, name)); err != nil {
			return err
		}
	}
	disks, err := disk.Open(filepath.Join(l.dir, "disks"))
	if err != nil {
		return err
	}
	l.disk, err = disks.Ensure(ctx, image.Root{Layers: []string{system, l.root()}, Binds: []image.Bind{
		{Source: filepath.Dir(l.kernel.Image), Target: kernelRoot + "/boot"},
		{Source: l.kernel.Modules, Target: kernelRoot + "/lib/modules/" + l.kernel.Release},
		{Source: small, Target: imageDir},
	}})
	return err
}

// binaries are the programs that were handed in, by their names in the lab. The
// driver looks for the jailer by that name, beside the monitor.
func (l *lab) binaries() map[string]string {
	programs := make(map[string]string)
	if l.binary != "" {
		programs[filepath.Base(l.binary)] = l.binary
	}
	if l.jailer != "" {
		programs[jailerName] = l.jailer
	}
	return programs
}

func copyProgram(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o755)
}

func (l *lab) makeInitramfs(ctx context.Context) (err error) {
	l.guest, err = initramfs.Build(ctx, l.kernel, filepath.Join(l.dir, "init"), labModules)
	return err
}
