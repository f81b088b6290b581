package main

import (
	"fmt"
	"strings"
)

// installService has systemd know the unit of this tree.
const installService = `set -e
mkdir -p /usr/local/bin
ln -sf ` + labDir + `/bin/aether /usr/local/bin/aether
cp ` + labDir + `/aether.service /etc/systemd/system/
systemctl daemon-reload
# The daemon of the steps before has the state directory until it has been idle.
until systemctl start aether; do sleep 2; done`

// killService kills the daemon and waits until systemd has started the next one. Who asked for
// sandboxes before would start a daemon that is not systemd's, and keeps systemd's from its state.
const killService = `set -e
was=$(systemctl show --property=MainPID --value aether)
systemctl kill --signal=KILL --kill-whom=main aether
until is=$(systemctl show --property=MainPID --value aether) && [ "$is" != "$was" ] && systemctl is-active --quiet aether; do sleep 1; done`

// endService stops the daemon and wants nothing to be left of it.
const endService = `set -e
systemctl stop aether
test "$(systemctl is-active aether)" = inactive || { systemctl status --no-pager aether >&2; exit 1; }
test ! -e /sys/fs/cgroup/system.slice/aether.service
rm /etc/systemd/system/aether.service /usr/local/bin/aether
systemctl daemon-reload`

// service is the daemon under systemd, as it is installed: started, stopped with a sandbox
// that goes on in the next one, killed, and started again by systemd.
func (t *turn) service() error {
	if err := t.succeeds(``, "sh", "-c", installService); err != nil {
		return err
	}
	kept, err := t.created("--keep")
	if err != nil {
		return err
	}
	in := func(id string, argv ...string) []string { return append([]string{"aether", "exec", id, "--"}, argv...) }
	for _, s := range []struct {
		pattern string
		argv    []string
	}{
		{``, in(kept, "sh", "-c", "echo kept > /tmp/x")},
		{``, []string{"systemctl", "restart", "aether"}},
		{`^kept\n$`, in(kept, "cat", "/tmp/x")},
		{``, []string{"systemctl", "reload", "aether"}},
		{``, []string{"aether", "pause", kept}},
		{``, []string{"sh", "-c", killService}},
		{``, []string{"aether", "resume", kept}},
		{`^kept\n$`, in(kept, "cat", "/tmp/x")},
		{``, []string{"aether", "rm", kept}},
		{``, []string{"sh", "-c", endService}},
	} {
		if err := t.succeeds(s.pattern, s.argv...); err != nil {
			return err
		}
	}
	return nil
}

// created makes a sandbox of the daemon and gives its id.
func (t *turn) created(flags ...string) (string, error) {
	a, err := t.do(append([]string{"aether", "create"}, flags...)...)
	if err == nil && a.code != 0 {
		err = fmt.Errorf("aether create ended with %d: %s", a.code, lastLines(a.stderr, 1))
	}
	return strings.TrimSpace(a.stdout), err
}
