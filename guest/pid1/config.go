package pid1

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"aether/guest"
	"aether/sandbox"
)

// Config is what the first process is told by its host.
type Config struct {
	// Channel is how its host reaches it: see the package comment.
	Channel string `json:"channel"`

	// User, WorkDir and Env are defaults for commands; POST /init changes them.
	User    string            `json:"user,omitempty"`
	WorkDir string            `json:"workdir,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	// AccessToken, if set, must be shown by every caller.
	AccessToken string `json:"access_token,omitempty"`
	// Limits are shown as the sandbox's size. Those of a machine hold what its
	// host cannot: Processes bounds the commands' group, DiskBytes each file
	// system in memory.
	Limits sandbox.Limits `json:"limits,omitzero"`

	// GuardedMemory, if set, is how many bytes all commands together may use, in a
	// container whose kernel counts them and kills nobody.
	GuardedMemory int64 `json:"guarded_memory,omitempty"`
	// Filter, if set, is a system call filter, as the kernel reads it, that this
	// process puts on itself and so on all commands, in a container whose runtime
	// cannot.
	Filter []byte `json:"filter,omitempty"`

	// Machine is set for the init of a machine.
	Machine *Machine `json:"machine,omitempty"`
}

// Machine is what a kernel has to be told before commands can run.
type Machine struct {
	Hostname string `json:"hostname,omitempty"`
	// Modules are files in the initramfs, in the order of their loading.
	Modules []string `json:"modules,omitempty"`
	// Root is the disk to run from; nil stays in the initramfs.
	Root *Root `json:"root,omitempty"`
	// Awaits says that the machine is nobody's yet: it does what can be done before
	// that is known, and then nothing but wait for Configure.
	Awaits bool `json:"awaits,omitempty"`
	// Held are modules, loaded after the others, that get no device of the virtio
	// bus before Configure: each copy of the machine finds its own.
	Held []string `json:"held,omitempty"`
}

// Configuration makes somebody's machine of one that awaits it. Every copy of a
// machine that was saved while it waited is given another.
type Configuration struct {
	// Secret is mixed into the machine's random numbers before anything else: the
	// copies have the same up to then. It has 32 to 512 bytes.
	Secret []byte `json:"secret"`
	// Now is the time, which stood still while the machine was saved.
	Now time.Time `json:"now"`
	// Config is everything but the channel, which it has. Modules are loaded on top
	// of those that it has.
	Config Config `json:"config"`
}

// Validate checks everything that can be checked before anything is done.
func (c Configuration) Validate() error {
	if len(c.Secret) < minSecret || len(c.Secret) > maxControl {
		return sandbox.Invalidf("secret", "%d bytes are not between %d and %d", len(c.Secret), minSecret, maxControl)
	}
	if c.Now.IsZero() {
		return sandbox.Invalidf("now", "a machine that was saved does not know the time")
	}
	if c.Config.Machine == nil || c.Config.Machine.Awaits {
		return sandbox.Invalidf("config.machine", "there is none to configure")
	}
	return c.Config.Validate()
}

const (
	// maxControl bounds a small body of the control routes, and a secret.
	maxControl = 512
	minSecret  = 32
	// maxConfiguration bounds a Configuration, most of which is variables.
	maxConfiguration = 4 << 20
)

// Root is a disk that becomes the root of a machine.
type Root struct {
	Device string `json:"device"`
	Type   string `json:"type"`
	// UpperBytes bounds what can be written over it, which is kept in memory.
	UpperBytes int64 `json:"upper_bytes,omitempty"`
	// Upper is another disk, with an ext4, that it is kept on instead.
	Upper string `json:"upper,omitempty"`
}

// Channel kinds.
const (
	stdioChannel  = "stdio"
	unixChannel   = "unix"
	virtioChannel = "virtio"
	vsockChannel  = "vsock"
)

// channel is a Channel, read.
type channelAt struct {
	kind string
	name string // of the port or the socket
	port uint32
}

func parseChannel(text string) (channelAt, error) {
	kind, name, _ := strings.Cut(text, ":")
	at := channelAt{kind: kind, name: name}
	switch {
	case kind == stdioChannel && name == "":
		return at, nil
	case kind == virtioChannel && name != "" && !strings.Contains(name, "/"), kind == unixChannel && path.IsAbs(name):
		return at, nil
	case kind == vsockChannel:
		port, err := strconv.ParseUint(name, 10, 32)
		if err == nil {
			at.port = uint32(port)
			return at, nil
		}
	}
	return channelAt{}, sandbox.Invalidf("channel", "%.80q is none of stdio, virtio:NAME, unix:/path, vsock:PORT", text)
}

// Validate checks everything that can be checked before anything is done.
func (c Config) Validate() error {
	if _, err := parseChannel(c.Channel); err != nil {
		return err
	}
	if c.Machine != nil && c.Machine.Root != nil && (c.Machine.Root.Device == "" || c.Machine.Root.Type == "") {
		return sandbox.Invalidf("machine.root", "a device and the type of its file system are needed")
	}
	return c.options().Validate()
}

func (c Config) options() guest.Options {
	return guest.Options{DefaultUser: c.User, WorkDir: c.WorkDir, Env: c.Env, AccessToken: c.AccessToken, Limits: c.Limits}
}

// readFile adds what a file says. A missing one says nothing.
func (c *Config) readFile(name string) error {
	text, err := os.ReadFile(name)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, c); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

const (
	defaultFile = "/aether.json"
	wordPrefix  = "aether."
)

// machineConfig reads the file and the kernel's command line, in this order.
func machineConfig(commandLine string) (Config, error) {
	words := map[string]string{}
	for _, word := range strings.Fields(commandLine) {
		if name, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(name, wordPrefix) {
			words[strings.TrimPrefix(name, wordPrefix)] = value
		}
	}
	c := Config{Machine: &Machine{}}
	file := defaultFile
	if named := words["config"]; named != "" {
		file = named
	}
	if err := c.readFile(file); err != nil {
		return c, err
	}
	if c.Machine == nil {
		c.Machine = &Machine{}
	}
	if channel := words["channel"]; channel != "" {
		c.Channel = channel
	}
	if hostname := words["hostname"]; hostname != "" {
		c.Machine.Hostname = hostname
	}
	return c, c.Validate()
}
