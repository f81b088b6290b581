package pid1

import (
	"os"
	"path/filepath"
	"testing"

	"aether/sandbox"
)

func TestChannels(t *testing.T) {
	for text, want := range map[string]channelAt{
		"stdio":        {kind: "stdio"},
		"virtio:a.b":   {kind: "virtio", name: "a.b"},
		"unix:/run/s":  {kind: "unix", name: "/run/s"},
		"vsock:1024":   {kind: "vsock", name: "1024", port: 1024},
		"":             {},
		"stdio:x":      {},
		"virtio:":      {},
		"virtio:../x":  {},
		"unix:run/s":   {},
		"vsock:":       {},
		"vsock:-1":     {},
		"vsock:1<<40":  {},
		"carrier:bird": {},
	} {
		got, err := parseChannel(text)
		if (err == nil) != (want.kind != "") || err == nil && got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if err != nil && sandbox.ClassOf(err) != sandbox.Invalid {
			t.Errorf("%q: %v is not Invalid", text, err)
		}
	}
}

func TestMachineConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.json")
	text := `{"channel":"stdio","user":"me","env":{"A":"b"},"limits":{"processes":7},
		"machine":{"hostname":"one","modules":["/a.ko"],"root":{"device":"/dev/vda","type":"ext4","upper_bytes":5}}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := machineConfig("quiet aether.channel=virtio:x panic=-1 aether.config=" + file + " aether.hostname=two\n")
	if err != nil {
		t.Fatal(err)
	}
	if c.Channel != "virtio:x" || c.User != "me" || c.Env["A"] != "b" || c.Limits.Processes != 7 || c.Machine.Hostname != "two" ||
		len(c.Machine.Modules) != 1 || *c.Machine.Root != (Root{"/dev/vda", "ext4", 5}) {
		t.Errorf("%+v, %+v", c, c.Machine)
	}
	if c, err := machineConfig("aether.channel=vsock:1 aether.config=/no/such"); err != nil || c.Machine == nil {
		t.Errorf("without a file: %+v, %v", c, err)
	}
	for _, line := range []string{"", "aether.channel=nonsense", "aether.channel=stdio aether.config=/proc/self/exe"} {
		if c, err := machineConfig(line); err == nil {
			t.Errorf("%q was understood: %+v", line, c)
		}
	}
	bad := Config{Channel: "stdio", Machine: &Machine{Root: &Root{Device: "/dev/vda"}}}
	if err := bad.Validate(); sandbox.ClassOf(err) != sandbox.Invalid {
		t.Errorf("a root without a type: %v", err)
	}
}
