package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"aether/driver/cell"
	"aether/driver/gvisor"
	"aether/image"
	"aether/lab/fork"
	"aether/sandbox"
)

// ahead is how many warm cells are kept ready.
const ahead = 16

// forksOfCells measures cells beside those that restore what they have saved.
func forksOfCells(ctx context.Context, opts fork.Options) (_ fork.Report, err error) {
	dir, err := os.MkdirTemp("", "aether-bench-")
	if err != nil {
		return fork.Report{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	// Ids of sandboxes have to reach the root file system in it.
	if err := os.Chmod(dir, 0o755); err != nil {
		return fork.Report{}, err
	}
	images := func() (*image.Store, error) { return image.Open(filepath.Join(dir, "images")) }
	cells := cell.New(cell.Options{Images: images, RunDir: filepath.Join(dir, "run"), Ahead: ahead})
	opts.Restorers = []sandbox.Driver{
		cell.New(cell.Options{Images: images, RunDir: filepath.Join(dir, "run-kept"), Ahead: ahead}),
		gvisor.New(gvisor.Options{Images: images, RunDir: filepath.Join(dir, "run-gvisor"), StateDir: filepath.Join(dir, "gvisor")}),
	}
	for _, d := range append([]sandbox.Driver{cells}, opts.Restorers...) {
		if c, ok := d.(sandbox.Closer); ok {
			defer func() { err = errors.Join(err, c.Close(context.Background())) }()
		}
	}
	return fork.Measure(ctx, cells, opts)
}
