package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"aether/internal/bounded"
	"aether/internal/host/storedir"
	"aether/sandbox"
)

// metaPackage always depends on the newest kernel for virtual machines.
func metaPackage() string { return "linux-image-cloud-" + runtime.GOARCH }

// Installer is a sandbox.Driver whose machines need a kernel that a user can have
// fetched ahead of the first one. It is found by type assertion.
type Installer interface {
	// InstallKernel fetches a kernel, if there is none yet, to where this driver
	// looks for one. Errors: those of Install.
	InstallKernel(context.Context) (Kernel, error)
}

// Install fetches the distribution's kernel for virtual machines, as its package
// manager is set up to, and unpacks it below dir without installing anything on
// the host; it needs no privilege. One that is there already is not fetched again.
// Errors: Unavailable where there is no such package manager or no such package.
func Install(ctx context.Context, dir string) (Kernel, error) {
	k, err := install(ctx, dir)
	if err != nil {
		return Kernel{}, fmt.Errorf("kernel: install: %w", err)
	}
	return k, nil
}

func install(ctx context.Context, dir string) (Kernel, error) {
	if err := storedir.Prepare(dir); err != nil {
		return Kernel{}, err
	}
	lock, err := storedir.Acquire(ctx, filepath.Join(dir, ".lock"))
	if err != nil {
		return Kernel{}, err
	}
	k, err := installLocked(ctx, dir)
	return k, errors.Join(err, lock.Release())
}

func installLocked(ctx context.Context, dir string) (Kernel, error) {
	name, err := newestPackage(ctx)
	if err != nil {
		return Kernel{}, err
	}
	release := strings.TrimPrefix(name, "linux-image-")
	final := filepath.Join(dir, release)
	if k, ok := newest(final); ok {
		return k, nil
	}
	work := filepath.Join(dir, ".work")
	if err := os.RemoveAll(work); err != nil { // a dead program's
		return Kernel{}, err
	}
	if err := os.Mkdir(work, 0o755); err != nil {
		return Kernel{}, err
	}
	if err := errors.Join(fetchInto(ctx, work, name, final), os.RemoveAll(work)); err != nil {
		return Kernel{}, err
	}
	k, _ := newest(final)
	return k, nil
}

// fetchInto gives the kernel its final place once it is known to be one.
func fetchInto(ctx context.Context, work, name, final string) error {
	if err := fetch(ctx, work, name); err != nil {
		return err
	}
	root := filepath.Join(work, "root")
	if _, ok := newest(root); !ok {
		return &sandbox.Error{Class: sandbox.Unavailable, Reason: "the package " + name + " holds no kernel with modules"}
	}
	return os.Rename(root, final)
}

// newestPackage asks which package the meta package stands for.
func newestPackage(ctx context.Context) (string, error) {
	out, err := run(ctx, "", "apt-cache", "depends", "--important", "--", metaPackage())
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(out) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: ")
		if ok && strings.HasPrefix(name, "linux-image-") && !strings.ContainsAny(name, "/ ") {
			return name, nil
		}
	}
	return "", &sandbox.Error{Class: sandbox.Unavailable, Reason: "the package manager knows no " + metaPackage(), Remedy: "apt-get update, or name a kernel in AETHER_KERNEL"}
}

// fetch leaves work/root with the files of the package. The package manager has
// checked what it fetched against its signed lists.
func fetch(ctx context.Context, work, name string) error {
	// Not "--": apt-get download takes it for a package. The name was checked.
	if _, err := run(ctx, work, "apt-get", "-q", "download", name); err != nil {
		return err
	}
	packages, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil || len(packages) != 1 {
		return errors.Join(err, &sandbox.Error{Class: sandbox.Unavailable, Reason: fmt.Sprintf("fetching %s gave %d packages", name, len(packages))})
	}
	root := filepath.Join(work, "root")
	_, err = run(ctx, work, "dpkg-deb", "-x", packages[0], root)
	return err
}

// maxSaid bounds what is kept of a tool's output.
const maxSaid = 1 << 20

func run(ctx context.Context, dir, tool string, args ...string) (string, error) {
	path, err := exec.LookPath(tool)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return "", &sandbox.Error{Class: sandbox.Unavailable, Reason: tool + " is not installed: kernels are fetched from Debian's archive",
			Remedy: "name a kernel in AETHER_KERNEL"}
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out := &bounded.Output{What: "what " + tool + " says", Max: maxSaid}
	failure := &bounded.Output{What: "the failure of " + tool, Max: maxSaid}
	cmd.Stdout, cmd.Stderr = out, failure
	if err := cmd.Run(); err != nil {
		return "", &sandbox.Error{Class: sandbox.Unavailable, Retry: true, Err: err,
			Reason: fmt.Sprintf("%s: %s", tool, lastLine(failure.String()))}
	}
	return out.String(), nil
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}
