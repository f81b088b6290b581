package incus

import (
	"context"
	"os"
	"os/exec"

	"aether/driver/daemon"
	"aether/driver/guestagent"
	"aether/sandbox"
)

// Probe implements sandbox.Driver. It asks the daemon and makes nothing.
func (d *Driver) Probe(ctx context.Context) sandbox.Report {
	ctx, cancel := context.WithTimeout(ctx, daemon.ProbeTime)
	defer cancel()
	seen, err := look(ctx, connect(d.opts.address()), d.opts)
	report := sandbox.Report{Version: seen.server.Environment.Version}
	if err != nil {
		report.Reason, report.Remedy = daemon.Tell(err)
		return report
	}
	report.Usable, report.Gaps = true, gaps(seen.pool)
	return report
}

// sight is what a look at a host finds.
type sight struct {
	server server
	pool   pool
	guest  string // aether-guest
	ip     string // the program that brings the loopback up
}

// look finds out whether sandboxes can be made. Errors: Unavailable.
func look(ctx context.Context, api *client, opts Options) (s sight, err error) {
	if s.server, err = api.ping(ctx); err != nil {
		return s, err
	}
	if os.Geteuid() != 0 {
		return s, &sandbox.Error{Class: sandbox.Unavailable, Reason: "the service inside a container is reached through /proc, which is root's alone",
			Remedy: "run as root, or use docker or bubblewrap"}
	}
	if s.pool, err = api.pool(ctx, opts.Pool); err != nil {
		return s, explain(err)
	}
	if s.ip, err = exec.LookPath("ip"); err != nil {
		return s, &sandbox.Error{Class: sandbox.Unavailable, Reason: "there is no program ip to bring up the loopback of sandboxes", Remedy: "install the package iproute2"}
	}
	s.guest, err = guestagent.Find()
	return s, err
}

const diskRemedy = "keep sandboxes in a pool of btrfs, zfs or lvm, and leave the limit unset elsewhere"

func gaps(p pool) []sandbox.Gap {
	list := guestagent.LimitGaps(guestagent.ProcessesRefused)
	if !p.bounds() {
		list = append(list, sandbox.Gap{Missing: "bounds on roots in the storage pool " + p.Name + " (" + p.Driver + ")",
			Cost: "limits on disk are refused, and none is set by default", Remedy: diskRemedy})
	}
	return list
}
