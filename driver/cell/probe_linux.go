package cell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"aether/driver/guestagent"
	"aether/guest"
	"aether/internal/host/cgroup"
	"aether/internal/host/confine"
	"aether/internal/host/sysinfo"
	"aether/sandbox"
)

// Probe implements sandbox.Driver. It makes a cell, has a process enter it as a
// command does, and ends it: nothing else tells for sure whether the host allows
// that.
func (d *Driver) Probe(ctx context.Context) sandbox.Report {
	report := sandbox.Report{Version: kernelVersion()}
	gaps, uncounted, err := try()
	if err != nil {
		report.Reason = err.Error()
		var e *sandbox.Error
		if errors.As(err, &e) {
			report.Reason, report.Remedy = e.Reason, e.Remedy
		}
		return report
	}
	report.Usable = true
	report.Gaps = append(append(gaps, guestagent.LimitGaps(uncounted)...), rateGaps()...)
	return report
}

// try makes a cell of nothing but mount points, in a directory and a group of its
// own, and enters it. uncounted is what it costs if groups cannot count processes.
func try() (gaps []sandbox.Gap, uncounted string, err error) {
	dir, err := os.MkdirTemp("", "aether-probe-")
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, "", err
	}
	host, err := confine.Open(confine.Options{Dir: filepath.Join(dir, "run")})
	if err != nil {
		return nil, "", unavailable(err)
	}
	defer host.Close()
	bare, err := makeBare(filepath.Join(dir, "run"))
	if err != nil {
		return nil, "", fmt.Errorf("cell: %w", err)
	}
	base, err := host.Prepare(confine.Tree{Layers: []string{bare}})
	if err != nil {
		return nil, "", unavailable(err)
	}
	defer base.Close()
	err = inGroup(filepath.Join(dir, "run"), func(group cgroup.Way) error { return bootAndEnter(base, group) })
	uncounted = "processes are bounded by a resource limit instead"
	if !host.BoundsProcesses() {
		uncounted = guestagent.ProcessesRefused
	}
	return host.Gaps(), uncounted, err
}

// inGroup runs fn with a way into a group of its own, if this user can have one.
func inGroup(runDir string, fn func(cgroup.Way) error) (err error) {
	groups, err := newGroups(runDir)
	if err != nil && sandbox.ClassOf(err) != sandbox.Unavailable {
		return err
	}
	defer func() { err = errors.Join(err, groups.close(context.Background())) }()
	group, way, err := groups.make()
	if err != nil {
		return err
	}
	return joinRemoval(context.Background(), group, fn(way))
}

func bootAndEnter(base *confine.Base, group cgroup.Way) error {
	cell, err := base.Boot(confine.Config{Hostname: "probe", Upper: sandbox.MinDisk, Group: group})
	if err != nil {
		return unavailable(err)
	}
	err = enter(cell, group)
	killed := cell.Kill()
	_, waited := cell.Wait()
	return errors.Join(err, killed, waited)
}

// enter takes every step that a command takes, up to its program: there is none in
// a cell of mount points, and that this alone is missing is what is wanted.
func enter(cell *confine.Cell, group cgroup.Way) error {
	const nothing = "/aether-probe"
	_, _, err := cell.Exec(confine.Command{Path: nothing, Args: []string{nothing}, Dir: "/",
		UID: confine.UserID, GID: confine.UserID, Group: group})
	var fault *confine.Fault
	if errors.As(err, &fault) && fault.Part == confine.ExecutePart && errors.Is(err, syscall.ENOENT) {
		return nil
	}
	if err == nil {
		return fmt.Errorf("cell: probe: %s was executed, which does not exist", nothing)
	}
	return startError(guest.Command{Path: nothing, Dir: "/"}, err)
}

func kernelVersion() string {
	release, err := sysinfo.Release()
	if err != nil {
		return ""
	}
	return release
}
