package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"aether/internal/host/storedir"
	"aether/sandbox"
)

// rootCache keeps root file systems as disks. An entry is made under another name
// and gets its own when it is whole.
type rootCache struct {
	dir      string
	progress io.Writer
}

// disk is the file system of an entry.
func disk(entry string) string { return filepath.Join(entry, "root.img") }

// boot is a file that an entry has beside its disk for a kernel: "vmlinuz" or
// "initrd".
func boot(entry, kernel, file string) string { return filepath.Join(entry, kernel, file) }

// ensure gives the entry of a root, which is made if it is missing.
func (c rootCache) ensure(ctx context.Context, r root) (entry string, err error) {
	entry = filepath.Join(c.dir, r.name())
	if _, err := os.Stat(entry); err == nil {
		return entry, nil
	}
	if os.Geteuid() != 0 {
		return "", &sandbox.Error{Class: sandbox.Denied, Op: "hosttest", Reason: "debootstrap needs the rights of root, for a root file system that is not there yet: " + entry, Remedy: "run this once as root"}
	}
	if err := storedir.Prepare(c.dir); err != nil {
		return "", err
	}
	lock, err := storedir.Acquire(ctx, entry+".making")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if _, err := os.Stat(entry); err == nil {
		return entry, nil // another run was first
	}
	return entry, c.make(ctx, r, entry)
}

func (c rootCache) make(ctx context.Context, r root, entry string) (err error) {
	if _, err := storedir.ReapScratch(c.dir); err != nil {
		return err
	}
	scratch, release, err := storedir.Scratch(ctx, c.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	m := maker{root: r, tree: filepath.Join(scratch, "tree"), entry: filepath.Join(scratch, "entry")}
	for _, step := range m.steps() {
		began := time.Now()
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s for %s: %w", step.what, r.name(), err)
		}
		if took := time.Since(began); took > time.Second {
			fmt.Fprintf(c.progress, "hosttest: %s: %s: %.0f s\n", r.name(), step.what, took.Seconds())
		}
	}
	return os.Rename(m.entry, entry)
}
