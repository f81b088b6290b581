package pid1

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

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
		len(c.Machine.Modules) != 1 || *c.Machine.Root != (Root{Device: "/dev/vda", Type: "ext4", UpperBytes: 5}) {
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
	awaiting, err := json.Marshal(Config{Channel: "stdio", Machine: &Machine{Awaits: true, Held: []string{"/b.ko"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, awaiting, 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := machineConfig("aether.config=" + file); err != nil || !c.Machine.Awaits || len(c.Machine.Held) != 1 {
		t.Errorf("a machine that awaits: %+v, %v", c.Machine, err)
	}
	bad := Config{Channel: "stdio", Machine: &Machine{Root: &Root{Device: "/dev/vda"}}}
	if err := bad.Validate(); sandbox.ClassOf(err) != sandbox.Invalid {
		t.Errorf("a root without a type: %v", err)
	}
}

// A machine that was saved must not begin without what makes it differ from its
// copies.
func TestConfiguration(t *testing.T) {
	good := Configuration{Secret: make([]byte, minSecret), Now: time.Now(), Config: Config{Channel: "stdio", Machine: &Machine{}}}
	if err := good.Validate(); err != nil {
		t.Errorf("a good one: %v", err)
	}
	for field, change := range map[string]func(*Configuration){
		"secret":         func(c *Configuration) { c.Secret = c.Secret[:minSecret-1] },
		"now":            func(c *Configuration) { c.Now = time.Time{} },
		"config.machine": func(c *Configuration) { c.Config.Machine = nil },
		"machine.root":   func(c *Configuration) { c.Config.Machine = &Machine{Root: &Root{}} },
		"workdir":        func(c *Configuration) { c.Config.WorkDir = "relative" },
	} {
		c := good
		change(&c)
		var e *sandbox.Error
		if err := c.Validate(); !errors.As(err, &e) || e.Class != sandbox.Invalid || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
