package main

import (
	"context"
	"errors"
	"path/filepath"

	"aether/bench/fork"
	"aether/driver/cell"
	"aether/driver/gvisor"
	"aether/image"
	"aether/sandbox"
)

// measureFork is what `aether bench fork` measures, of the same driver. It takes
// fewer rounds: a fresh start of an interpreter takes long.
func (f *field) measureFork(ctx context.Context) (_ *forks, err error) {
	dir := filepath.Join(f.dir, "fork")
	images := func() (*image.Store, error) { return image.Open(filepath.Join(dir, "images")) }
	driver := cell.New(cell.Options{Images: images, RunDir: filepath.Join(dir, "run"), Ahead: ahead})
	defer func() { err = errors.Join(err, driver.Close(context.Background())) }()
	restorers := []sandbox.Driver{
		cell.New(cell.Options{Images: images, RunDir: filepath.Join(dir, "run-kept"), Snapshots: sandbox.Checkpoint, Ahead: ahead}),
		gvisor.New(gvisor.Options{Images: images, RunDir: filepath.Join(dir, "run-gvisor"), StateDir: filepath.Join(dir, "gvisor")}),
	}
	for _, r := range restorers {
		defer func() { err = errors.Join(err, r.(sandbox.Closer).Close(context.Background())) }()
	}
	opts := fork.Options{Restorers: restorers, Rounds: min(f.opts.rounds, fork.DefaultRounds), Children: min(f.opts.idle, fork.DefaultChildren), Progress: f.progress}
	report, err := fork.Measure(ctx, driver, opts)
	if class := sandbox.ClassOf(err); class == sandbox.Unsupported || class == sandbox.Unavailable {
		return &forks{Skipped: err.Error()}, nil
	}
	return &forks{Report: &report}, err
}
