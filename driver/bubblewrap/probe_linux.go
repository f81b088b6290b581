package bubblewrap

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"aether/guest/inside"
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
	report := sandbox.Report{Version: version(ctx)}
	if err := try(ctx); err != nil {
		report.Reason = err.Error()
		var e *sandbox.Error
		if errors.As(err, &e) && e.Reason != "" {
			report.Reason, report.Remedy = e.Reason, e.Remedy
		}
		return report
	}
	report.Usable = true
	report.Gaps = inside.LimitGaps()
	return report
}

func version(ctx context.Context) string {
	path, err := findProgram()
	if err != nil {
		return ""
	}
	text, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// try makes a sandbox of nothing but places to mount on, in a directory of its
// own.
func try(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "aether-probe-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o711); err != nil {
		return err
	}
	d := New(Options{RunDir: filepath.Join(dir, "run")})
	defer func() { err = errors.Join(err, d.Close(ctx)) }()
	e, err := d.open()
	if err != nil {
		return err
	}
	i, err := e.create(ctx, sandbox.Spec{ID: "probe"}, image.Root{})
	if err != nil {
		return explain(err)
	}
	return i.Destroy(ctx)
}
