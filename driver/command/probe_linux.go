package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"aether/driver/guestagent"
	"aether/image"
	"aether/sandbox"
)

// probeTime bounds a probe.
const probeTime = 2 * time.Second

// Probe implements sandbox.Driver. It makes a sandbox and ends it: nothing else
// tells for sure whether the host allows one.
func (d *Driver) Probe(ctx context.Context) sandbox.Report {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	report := sandbox.Report{Version: d.version(ctx)}
	if err := d.try(ctx); err != nil {
		report.Reason = err.Error()
		var e *sandbox.Error
		if errors.As(err, &e) && e.Reason != "" {
			report.Reason, report.Remedy = e.Reason, e.Remedy
		}
		return report
	}
	report.Usable = true
	report.Gaps = guestagent.LimitGaps(guestagent.ProcessesRefused)
	return report
}

// version is empty where the program cannot be asked; what it cannot do then is
// found out by trying.
func (d *Driver) version(ctx context.Context) string {
	path, err := d.system.find()
	if err != nil {
		return ""
	}
	text, err := d.system.Version(ctx, path)
	if err != nil {
		return ""
	}
	return text
}

// try makes a sandbox of nothing but places to mount on, in a directory of its
// own.
func (d *Driver) try(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "aether-probe-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o711); err != nil {
		return err
	}
	other := New(d.system, Options{RunDir: filepath.Join(dir, "run")})
	defer func() { err = errors.Join(err, other.Close(ctx)) }()
	e, err := other.open()
	if err != nil {
		return err
	}
	i, err := e.create(ctx, sandbox.Spec{ID: "probe"}, image.Root{}, nil)
	if err != nil {
		return explain(ctx, err)
	}
	return i.Destroy(ctx)
}
