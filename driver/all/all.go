// Package all is the table of the drivers that this build has, in the order in
// which they are preferred. It holds no driver's code.
package all

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"aether/driver/bubblewrap"
	"aether/driver/cell"
	"aether/driver/qemu"
	"aether/guest/inside"
	"aether/image"
	"aether/image/kernel"
	"aether/sandbox"
)

// Drivers makes every driver. None does anything before it is used.
func Drivers() []sandbox.Driver {
	state := stateDir()
	images := sync.OnceValues(func() (*image.Store, error) { return image.Open(filepath.Join(state, "images")) })
	run := runDir(state)
	return []sandbox.Driver{
		cell.New(cell.Options{Images: images, RunDir: filepath.Join(run, "cell"), DiskDir: filepath.Join(state, "cells"), SnapshotDir: filepath.Join(state, "snapshots")}),
		bubblewrap.New(bubblewrap.Options{Images: images, RunDir: filepath.Join(run, "bubblewrap")}),
		qemu.New(qemu.Options{Images: images, Guest: inside.Find, StateDir: filepath.Join(state, "machines"), RunDir: filepath.Join(run, "qemu"),
			Kernel: kernel.Places{Named: os.Getenv("AETHER_KERNEL"), Installed: filepath.Join(state, "kernels")}}),
	}
}

// stateDir is where what lasts is kept.
func stateDir() string {
	if dir := os.Getenv("AETHER_STATE_DIR"); dir != "" {
		return dir
	}
	if os.Geteuid() == 0 {
		return "/var/lib/aether"
	}
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "aether")
	}
	if home, err := os.UserHomeDir(); err == nil && home != "/" {
		return filepath.Join(home, ".local", "share", "aether")
	}
	return filepath.Join(os.TempDir(), "aether-"+strconv.Itoa(os.Geteuid()))
}

// runDir is where what ends with this boot of the host is kept.
func runDir(state string) string {
	switch {
	case os.Getenv("AETHER_STATE_DIR") != "":
		return filepath.Join(state, "run")
	case os.Geteuid() == 0:
		return "/run/aether"
	case filepath.IsAbs(os.Getenv("XDG_RUNTIME_DIR")):
		return filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "aether")
	}
	return filepath.Join(state, "run")
}
