package isolation

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"aether/driver/command"
	"aether/driver/guestagent"
	"aether/driver/vmm/vmmtest"
	"aether/sandbox"
)

// container is a driver of containers as `runc spec` describes them, and as a test changes
// that, or of what another program makes: the product's own drivers make no weak ones.
type container struct {
	name   string
	change func(*specs.Spec)
	bwrap  []string // instead: bwrap with these arguments
	fleet  guestagent.Fleet
}

func (c *container) Info() sandbox.Info {
	return sandbox.Info{Name: c.name, Boundary: sandbox.ProcessBoundary}
}

func (c *container) Probe(context.Context) sandbox.Report {
	program := "runc"
	if c.bwrap != nil {
		program = "bwrap"
	}
	if _, err := exec.LookPath(program); err != nil {
		return sandbox.Report{Reason: err.Error(), Remedy: "install " + program}
	}
	if os.Geteuid() != 0 {
		return sandbox.Report{Reason: "containers with root's rights need root", Remedy: "run as root"}
	}
	return sandbox.Report{Usable: true, Version: "any"}
}

// Create refuses limits: a container has none by default.
func (c *container) Create(ctx context.Context, spec sandbox.Spec) (_ sandbox.Instance, err error) {
	if spec.Limits != (sandbox.Limits{}) {
		return nil, &sandbox.Error{Class: sandbox.Unsupported, Op: c.name, Reason: "it has no limits by default"}
	}
	leave, err := c.fleet.Enter(c.name)
	if err != nil {
		return nil, err
	}
	defer leave()
	w := &running{id: "aether-isolation-" + strings.ToLower(rand.Text()[:8])}
	if w.dir, err = os.MkdirTemp("", "aether-bundle-"); err != nil {
		return nil, err
	}
	dialer, err := w.start(ctx, c)
	if err != nil {
		return nil, errors.Join(err, w.Release(ctx))
	}
	i := guestagent.New(c.name, w.id, spec, w, dialer)
	c.fleet.Add(i)
	return i, nil
}

// Close implements sandbox.Closer.
func (c *container) Close(ctx context.Context) error {
	_, err := c.fleet.Close(ctx)
	return err
}

// running is one such container.
type running struct {
	id, dir string
	cmd     *exec.Cmd
	pipes   *guestagent.Pipes
	plain   bool // the program ends with its process
}

func (w *running) start(ctx context.Context, c *container) (_ guestagent.Dialer, err error) {
	program, err := guestagent.Find()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("bwrap", append(slices.Clone(c.bwrap), "--ro-bind", program, program, "--", program, "-channel", "stdio")...)
	if w.plain = c.bwrap != nil; !w.plain {
		if err := w.describe(program, c.change); err != nil {
			return nil, err
		}
		cmd = exec.Command("runc", "--root", w.dir+"/state", "run", "--no-new-keyring", "--bundle", w.dir, w.id)
	}
	if w.pipes, err = guestagent.NewPipes(); err != nil {
		return nil, err
	}
	child := w.pipes.Child()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = child[0], child[1], child[2]
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	w.cmd = cmd
	if err := w.pipes.Started(); err != nil {
		return nil, err
	}
	return w.pipes.Join(ctx, guestagent.Settings{})
}

// describe writes the bundle: what runc itself suggests, our program, and the change.
func (w *running) describe(program string, change func(*specs.Spec)) error {
	cmd := exec.Command("runc", "spec")
	cmd.Dir = w.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("runc spec: %w: %s", err, out)
	}
	file := filepath.Join(w.dir, "config.json")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var config specs.Spec
	if err := json.Unmarshal(text, &config); err != nil {
		return err
	}
	config.Root.Path, config.Process.Terminal, config.Process.Args = vmmtest.Image(), false, []string{"/run/.aether-guest", "-channel", "stdio"}
	config.Mounts = append(config.Mounts,
		specs.Mount{Destination: "/tmp", Type: "tmpfs", Source: "tmpfs", Options: []string{"mode=1777", "size=64m"}},
		specs.Mount{Destination: "/run", Type: "tmpfs", Source: "tmpfs", Options: []string{"mode=755", "size=1m"}},
		specs.Mount{Destination: "/run/.aether-guest", Type: "bind", Source: program, Options: []string{"bind", "ro"}})
	// The guest service sets the ids of what it starts.
	config.Process.Capabilities = command.OCICapabilities(append(config.Process.Capabilities.Bounding, "CAP_SETUID", "CAP_SETGID"))
	if change != nil {
		change(&config)
	}
	if text, err = json.Marshal(config); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

func (w *running) Stats(context.Context) (sandbox.Stats, error) { return sandbox.Stats{}, nil }

func (w *running) Kill() error {
	if w.plain {
		if err := w.cmd.Process.Kill(); !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		return nil
	}
	out, err := exec.Command("runc", "--root", w.dir+"/state", "delete", "--force", w.id).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func (w *running) Wait() sandbox.Exit {
	w.cmd.Wait()
	return sandbox.Exit{Cause: sandbox.Crashed, Detail: w.pipes.Said()}
}

func (w *running) Release(context.Context) (err error) {
	if w.cmd != nil {
		err = w.Kill()
	}
	if w.pipes != nil {
		err = errors.Join(err, w.pipes.Close())
	}
	return errors.Join(err, os.RemoveAll(w.dir))
}

// privileged has every capability and no wall but its root: as `docker run --privileged
// --pid=host --network=host --ipc=host` has.
func privileged(t *testing.T) func(*specs.Spec) {
	held := boundingSet(t)
	return func(s *specs.Spec) {
		s.Process.NoNewPrivileges, s.Process.Capabilities = false, command.OCICapabilities(held)
		s.Hostname, s.Process.Rlimits = "", nil
		s.Linux.Namespaces = []specs.LinuxNamespace{{Type: specs.MountNamespace}}
		s.Linux.MaskedPaths, s.Linux.ReadonlyPaths, s.Linux.Seccomp, s.Linux.Resources = nil, nil, nil, nil
		s.Mounts = append([]specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/dev", Type: "bind", Source: "/dev", Options: []string{"rbind"}},
			{Destination: "/sys", Type: "bind", Source: "/sys", Options: []string{"rbind"}},
		}, s.Mounts[len(s.Mounts)-3:]...)
	}
}

// names of capabilities in the order of their numbers.
var capabilityNames = strings.Fields(`CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE
NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN
SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG
WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE`)

// boundingSet are the capabilities that this program can give away.
func boundingSet(t *testing.T) (list []string) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	var bits uint64
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "CapBnd:"); ok {
			if _, err := fmt.Sscanf(strings.TrimSpace(rest), "%x", &bits); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, name := range capabilityNames {
		if bits&(1<<i) != 0 {
			list = append(list, "CAP_"+name)
		}
	}
	return list
}
