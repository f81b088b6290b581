package commandtest

import (
	"os"
	"strings"
	"testing"

	"aether/sandbox"
)

// Walls looks at a sandbox from inside, also by scripts of the driver's own: what
// they say is the value.
func Walls(t *testing.T, instance sandbox.Instance, more map[string]string) {
	t.Helper()
	want := map[string]string{
		"sed -n 's/^CapBnd:.//p' /proc/self/status":            "00000000000800fb", // command.Capabilities
		"sed -n 's/^Seccomp:.//p' /proc/1/status":              "2",
		"sed -n 's/^NoNewPrivs:.//p' /proc/1/status":           "1",
		"cat /proc/timer_list /proc/keys | wc -c":              "0",
		"test -w /proc/sys/kernel/core_pattern && echo yes":    "",
		"cat /proc/1/comm":                                     ".aether-guest",
		"cat /proc/sys/kernel/hostname":                        instance.ID(),
		"ls /proc/self/fd | wc -l":                             "4", // with the one that lists
		"tr '\\0' '\\n' </proc/1/environ | grep -c ^PWD=/":     "0", // not this program's
		"echo x > /dev/.aether-guest || echo no":               "no",
		"rm /dev/.aether-guest || echo no":                     "no",
		"kill -9 1; kill -TERM 1; sleep 0.1; cat /proc/1/comm": ".aether-guest",
		"sed 1d /proc/net/unix | grep -c @":                    "0", // nobody's orders are to be had
	}
	if os.Geteuid() != 0 {
		want["sed -n 's/^CapBnd:.//p' /proc/self/status"] = "0000000000000000"
	}
	for script, value := range more {
		want[script] = value
	}
	for script, value := range want {
		if got, _ := Sh(t, instance, "{ "+script+"; } 2>/dev/null"); got != value {
			t.Errorf("%s: %q, want %q", script, got, value)
		}
	}
	namespaces(t, instance)
}

func namespaces(t *testing.T, instance sandbox.Instance) {
	t.Helper()
	for _, kind := range []string{"user", "mnt", "pid", "ipc", "uts", "net", "cgroup"} {
		outside, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := Sh(t, instance, "readlink /proc/self/ns/"+kind); got == outside || !strings.HasPrefix(got, kind) {
			t.Errorf("the %s namespace is %s, the host's is %s", kind, got, outside)
		}
	}
}

// HostNetwork: a sandbox on the host's network has all of its devices.
func HostNetwork(t *testing.T, driver sandbox.Driver) {
	t.Helper()
	instance := Create(t, driver, sandbox.Spec{Network: sandbox.Network{Mode: sandbox.HostNetwork}})
	inside, _ := Sh(t, instance, "sed -n 's/^ *\\([^:]*\\):.*/\\1/p' /proc/net/dev")
	devices, err := os.ReadDir("/sys/class/net")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range devices {
		if !strings.Contains(inside, d.Name()) {
			t.Errorf("%s is not among %q", d.Name(), inside)
		}
	}
}
