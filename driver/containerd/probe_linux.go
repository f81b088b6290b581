package containerd

import (
	"context"
	"os/exec"
	"strings"

	"aether/driver/daemon"
	"aether/driver/guestagent"
	"aether/internal/host/features"
	"aether/sandbox"
)

// Probe implements sandbox.Driver. It asks the daemon and the host, and makes
// nothing.
func (d *Driver) Probe(ctx context.Context) sandbox.Report {
	ctx, cancel := context.WithTimeout(ctx, daemon.ProbeTime)
	defer cancel()
	version, err := look(ctx, d.opts)
	report := sandbox.Report{Version: version, Usable: true}
	var reasons, remedies []string
	for _, err := range []error{needs(ctx, d.opts), err} {
		if err == nil {
			continue
		}
		reason, remedy := daemon.Tell(err)
		reasons = append(reasons, reason)
		if remedy != "" {
			remedies = append(remedies, remedy)
		}
	}
	if len(reasons) > 0 {
		report.Usable, report.Reason, report.Remedy = false, strings.Join(reasons, "; "), strings.Join(remedies, "; ")
	}
	return report
}

func look(ctx context.Context, opts Options) (string, error) {
	client := newClient(opts.address())
	defer client.close()
	version, err := client.ping(ctx)
	if err == nil {
		_, err = guestagent.Find()
	}
	return version, err
}

// needs says what a shim lacks on this host. Errors: Unavailable.
func needs(ctx context.Context, opts Options) error {
	// containerd finds io.containerd.NAME.VERSION as containerd-shim-NAME-VERSION.
	parts := strings.Split(opts.shim(), ".")
	if len(parts) < 3 {
		return &sandbox.Error{Class: sandbox.Unavailable, Reason: "the shim's name " + opts.shim() + " is not of the form io.containerd.NAME.VERSION"}
	}
	program := "containerd-shim-" + parts[len(parts)-2] + "-" + parts[len(parts)-1]
	var missing, remedies []string
	if _, err := exec.LookPath(program); err != nil {
		missing = append(missing, "the shim "+program+" is not in PATH")
		remedies = append(remedies, map[string]string{KataShim: "install a release of Kata Containers and link its programs into /usr/local/bin",
			RuncShim: "install the package containerd", RunscShim: "install a release of gVisor, or `make runsc-shim` and put it into PATH"}[opts.shim()])
	}
	if opts.boundary() == sandbox.HardwareBoundary {
		if err := features.KVM(ctx); err != nil {
			reason, remedy := daemon.Tell(err)
			missing, remedies = append(missing, reason), append(remedies, remedy)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return &sandbox.Error{Class: sandbox.Unavailable, Reason: strings.Join(missing, "; "), Remedy: strings.Join(remedies, "; ")}
}
