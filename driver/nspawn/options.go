package nspawn

import (
	"log/slog"

	"aether/driver/command"
	"aether/image"
	"aether/network"
)

// Name is the system's canonical name.
const Name = "systemd-nspawn"

// Options say where the driver works.
type Options struct {
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

// New makes the driver.
func New(opts Options) *command.Driver { return command.New(system(), command.Options(opts)) }
