package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"aether/sandbox"
)

// keyring is what Debian's archive is signed with.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// diskSize is what the file system of a machine can hold; what is not written
// takes no room.
const diskSize = "8G"

// maker makes one entry of the cache.
type maker struct {
	root
	tree  string // the root file system while it is made
	entry string
	from  string // the mirror
}

type makerStep struct {
	what string
	do   func(context.Context) error
}

func (m *maker) steps() []makerStep {
	list := []makerStep{
		{"look for what it takes", m.prepare},
		{"debootstrap", func(ctx context.Context) error {
			return m.debootstrap(ctx, m.tree, append([]string{m.kernelPackage()}, m.packages...))
		}},
		{"keep the kernel", func(context.Context) error { return m.keepKernel(stockKernel) }},
	}
	if m.backports {
		list = append(list,
			makerStep{"install the kernel of backports", m.installBackports},
			makerStep{"keep the kernel of backports", func(context.Context) error { return m.keepKernel(backportsKernel) }})
	}
	if m.container {
		list = append(list, makerStep{"make the container's image", m.makeContainer})
	}
	return append(list, makerStep{"add a user and the files of the lab", m.furnish}, makerStep{"make the disk", m.makeDisk})
}

func (m *maker) prepare(ctx context.Context) (err error) {
	if _, err := os.Stat(keyring); err != nil {
		return &sandbox.Error{Class: sandbox.Unavailable, Op: "hosttest", Reason: "the keys of Debian's archive are missing", Remedy: "as root: apt-get install debian-archive-keyring", Err: err}
	}
	if err := m.runsForeign(); err != nil {
		return err
	}
	if m.from, err = mirror(ctx); err != nil {
		return err
	}
	return os.Mkdir(m.entry, 0o755)
}

// runsForeign: the packages' scripts are programs of the root's own architecture.
func (m *maker) runsForeign() error {
	if m.arch == runtime.GOARCH {
		return nil
	}
	name := architectures[m.arch].binfmt
	text, err := os.ReadFile("/proc/sys/fs/binfmt_misc/" + name)
	if err == nil && strings.HasPrefix(string(text), "enabled") && strings.Contains(string(text), "flags: ") && strings.Contains(string(text), "F") {
		return nil
	}
	return &sandbox.Error{Class: sandbox.Unavailable, Op: "hosttest", Reason: "this kernel does not run programs for " + m.arch + " (no " + name + " in /proc/sys/fs/binfmt_misc)",
		Remedy: "as root: apt-get install qemu-user-static binfmt-support, and mount -t binfmt_misc none /proc/sys/fs/binfmt_misc if nothing has; then update-binfmts --enable", Err: err}
}

func (m *maker) debootstrap(ctx context.Context, tree string, packages []string) error {
	return runAlone(ctx, "debootstrap", "--variant=minbase", "--arch="+architectures[m.arch].debian, "--keyring="+keyring,
		"--include="+strings.Join(packages, ","), m.suite, tree, m.from)
}

// keepKernel takes the one kernel of the tree into the entry.
func (m *maker) keepKernel(name string) error {
	if err := os.Mkdir(filepath.Join(m.entry, name), 0o755); err != nil {
		return err
	}
	for file, pattern := range map[string]string{"vmlinuz": "vmlinuz-*", "initrd": "initrd.img-*"} {
		found, err := filepath.Glob(filepath.Join(m.tree, "boot", pattern))
		if err != nil || len(found) != 1 {
			return fmt.Errorf("the root has %d of boot/%s instead of one", len(found), pattern)
		}
		if err := os.Rename(found[0], boot(m.entry, name, file)); err != nil {
			return err
		}
	}
	return nil
}

// installBackports has the tree's own apt install the newer kernel. The one that
// was there stays.
func (m *maker) installBackports(ctx context.Context) error {
	suite := m.suite + "-backports"
	source := filepath.Join(m.tree, "etc/apt/sources.list.d/backports.list")
	if err := os.WriteFile(source, []byte("deb "+m.from+" "+suite+" main\n"), 0o644); err != nil {
		return err
	}
	script := `mount -t proc proc /proc && apt-get -q update && apt-get -q -y --no-install-recommends install -t ` + suite + ` ` + m.kernelPackage()
	return errors.Join(runAlone(ctx, "chroot", m.tree, "/bin/sh", "-c", script), os.Remove(source))
}

// makeContainer makes what a default container of Docker's is run from: a shell,
// python, and what they need.
func (m *maker) makeContainer(ctx context.Context) error {
	tree := m.tree + "-container"
	if err := m.debootstrap(ctx, tree, []string{"python3"}); err != nil {
		return err
	}
	archive := filepath.Join(m.tree, containerTar)
	if err := os.MkdirAll(filepath.Dir(archive), 0o755); err != nil {
		return err
	}
	return errors.Join(runAlone(ctx, "tar", "-C", tree, "--numeric-owner", "--exclude=./usr/share/doc/*", "--exclude=./usr/share/locale/*",
		"--exclude=./usr/share/man/*", "--exclude=./var/cache/*", "--exclude=./var/lib/apt/lists/*", "-cf", archive, "."), os.RemoveAll(tree))
}

// furnish adds the user and the files of the lab, and removes what only the making
// needed.
func (m *maker) furnish(ctx context.Context) error {
	if err := runAlone(ctx, "chroot", m.tree, "useradd", "-m", "-s", "/bin/bash", userName); err != nil {
		return err
	}
	if err := runAlone(ctx, "chroot", m.tree, "apt-get", "clean"); err != nil {
		return err
	}
	for name, text := range rootFiles {
		if err := m.write(name, func(path string) error { return os.WriteFile(path, []byte(text), 0o644) }); err != nil {
			return err
		}
	}
	for name, target := range rootLinks {
		if err := m.write(name, func(path string) error { return os.Symlink(target, path) }); err != nil {
			return err
		}
	}
	for _, name := range rootUnlinks {
		if err := os.Remove(filepath.Join(m.tree, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Mkdir(filepath.Join(m.tree, labDir), 0o755)
}

// write makes something new at a path of the tree.
func (m *maker) write(name string, do func(path string) error) error {
	path := filepath.Join(m.tree, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return do(path)
}

func (m *maker) makeDisk(ctx context.Context) error {
	return errors.Join(runAlone(ctx, "mke2fs", "-q", "-t", "ext4", "-E", "lazy_itable_init=1,lazy_journal_init=1", "-L", rootLabel, "-d", m.tree, disk(m.entry), diskSize), os.RemoveAll(m.tree))
}
