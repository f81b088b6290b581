package cell

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"aether/host/cgroup"
	"aether/host/confine"
	"aether/sandbox"
)

// Probe implements sandbox.Driver. It makes a cell and ends it: nothing else
// tells for sure whether the host allows one.
func (d *Driver) Probe(ctx context.Context) sandbox.Report {
	report := sandbox.Report{Version: kernelVersion()}
	gaps, err := try()
	if err != nil {
		report.Reason = err.Error()
		var e *sandbox.Error
		if errors.As(err, &e) {
			report.Reason, report.Remedy = e.Reason, e.Remedy
		}
		return report
	}
	report.Usable = true
	report.Gaps = append(gaps, limitGaps()...)
	return report
}

// try makes a cell of nothing but mount points, in a directory of its own.
func try() (gaps []sandbox.Gap, err error) {
	dir, err := os.MkdirTemp("", "aether-probe-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, err
	}
	host, err := confine.Open(confine.Options{Dir: filepath.Join(dir, "run")})
	if err != nil {
		return nil, unavailable(err)
	}
	defer host.Close()
	all, err := newBases(host, filepath.Join(dir, "run"))
	if err != nil {
		return nil, err
	}
	base, err := host.Prepare(confine.Tree{Layers: []string{all.bare}})
	if err != nil {
		return nil, unavailable(err)
	}
	defer base.Close()
	cell, err := base.Boot(confine.Config{Hostname: "probe", Upper: sandbox.MinDisk, Group: cgroup.Attach{Into: -1}})
	if err != nil {
		return nil, unavailable(err)
	}
	err = cell.Kill()
	_, waitErr := cell.Wait()
	return host.Gaps(), errors.Join(err, waitErr)
}

// limitGaps says which limits this user cannot have here.
func limitGaps() []sandbox.Gap {
	hierarchy, err := cgroup.Detect()
	if err != nil {
		return []sandbox.Gap{{Missing: "cgroups: " + err.Error(), Cost: "limits on memory and CPU are refused"}}
	}
	var gaps []sandbox.Gap
	for _, c := range []struct {
		controller cgroup.Controller
		cost       string
	}{
		{cgroup.Memory, "memory limits are refused, and none is set by default"},
		{cgroup.CPU, "CPU limits are refused"},
		{cgroup.Pids, "processes are bounded by a resource limit instead"},
	} {
		if hierarchy.Holds()&c.controller != 0 {
			continue
		}
		gap := sandbox.Gap{Missing: "cgroup controller " + c.controller.String(), Cost: c.cost}
		var e *sandbox.Error
		if errors.As(hierarchy.Missing(c.controller), &e) {
			gap.Remedy = e.Remedy
		}
		gaps = append(gaps, gap)
	}
	return gaps
}

func kernelVersion() string {
	var name syscall.Utsname
	if err := syscall.Uname(&name); err != nil {
		return ""
	}
	var release []byte
	for _, c := range name.Release {
		if c == 0 {
			break
		}
		release = append(release, byte(c))
	}
	return "Linux " + string(release)
}
