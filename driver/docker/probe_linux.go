package docker

import (
	"context"

	"aether/driver/daemon"
	"aether/driver/guestagent"
	"aether/sandbox"
)

// Probe implements sandbox.Driver. It asks the daemon and makes nothing.
func (d *Driver) Probe(ctx context.Context) sandbox.Report {
	ctx, cancel := context.WithTimeout(ctx, daemon.ProbeTime)
	defer cancel()
	about, err := look(ctx, d.opts)
	report := sandbox.Report{Version: about.ServerVersion}
	if err != nil {
		report.Reason, report.Remedy = daemon.Tell(err)
		return report
	}
	report.Usable, report.Gaps = true, gaps(about)
	return report
}

func look(ctx context.Context, opts Options) (info, error) {
	socket, err := opts.address()
	if err != nil {
		return info{}, err
	}
	about, err := examine(ctx, connect(socket), opts.Runtime)
	if err != nil {
		return about, err
	}
	_, err = guestagent.Find()
	return about, err
}

// limit is something that a daemon can hold if its host can.
type limit struct {
	field string
	held  func(info) bool
	asked func(sandbox.Limits) bool
}

var limits = []limit{
	{"limits.memory", func(i info) bool { return i.MemoryLimit }, func(l sandbox.Limits) bool { return l.MemoryBytes > 0 }},
	{"limits.cpus", func(i info) bool { return i.CPUCfsPeriod && i.CPUCfsQuota }, func(l sandbox.Limits) bool { return l.CPUs > 0 }},
	{"limits.processes", func(i info) bool { return i.PidsLimit }, func(l sandbox.Limits) bool { return l.Processes > 0 }},
}

const cgroupRemedy = "enable the cgroup controllers memory, cpu and pids on the daemon's host"

func gaps(about info) (list []sandbox.Gap) {
	for _, l := range limits {
		if !l.held(about) {
			list = append(list, sandbox.Gap{Missing: "the daemon cannot hold " + l.field, Cost: "it is refused, and none is set by default", Remedy: cgroupRemedy})
		}
	}
	return list
}
