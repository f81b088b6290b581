package oci

import (
	"log/slog"

	"aether/driver/command"
	"aether/image"
	"aether/network"
)

// Runtime is a program that reads bundles.
type Runtime string

// The runtimes that can be driven. Each is a system of its own name.
const (
	Runc  Runtime = "runc"
	Crun  Runtime = "crun"
	Youki Runtime = "youki"
)

// Options say which runtime is used, and where the driver works.
type Options struct {
	Runtime Runtime // runc if empty
	// Images opens the store of root file systems, when first needed.
	Images func() (*image.Store, error)
	// RunDir holds locks of running programs.
	RunDir string
	// Logger is told what fails in the background, where no caller waits for an
	// answer. Nil means slog.Default().
	Logger *slog.Logger
	// Network is for sandboxes of the egress mode, which are refused without it.
	Network *network.Service
}

// New makes the driver of one runtime.
func New(opts Options) *command.Driver {
	if opts.Runtime == "" {
		opts.Runtime = Runc
	}
	return command.New(system(opts.Runtime), command.Options{Images: opts.Images, RunDir: opts.RunDir, Logger: opts.Logger, Network: opts.Network})
}
