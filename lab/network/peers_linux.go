package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// inBwrap starts the client in bubblewrap, and a program beside it that gives a network
// to the process of a number.
func (b *bench) inBwrap(program string, args ...string) func(context.Context) (*client, error) {
	return func(context.Context) (_ *client, err error) {
		path, err := exec.LookPath(program)
		if err != nil {
			return nil, err
		}
		info, theirs, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		defer info.Close()
		const infoFd = "3"
		bwrap := exec.Command("bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--info-fd", infoFd,
			"--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", b.program, "ask", b.server)
		bwrap.ExtraFiles = []*os.File{theirs}
		c, err := b.host.talk(bwrap)
		theirs.Close()
		if err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, c.stop())
			}
		}()
		var told struct {
			Child int `json:"child-pid"`
		}
		if err := json.NewDecoder(info).Decode(&told); err != nil {
			return nil, fmt.Errorf("bwrap: its information: %w: %s", err, c.said())
		}
		return b.beside(c, exec.Command(path, withPID(args, told.Child)...))
	}
}

// childPID stands for the number of the process in the sandbox.
const childPID = "PID"

func withPID(args []string, pid int) []string {
	list := make([]string, len(args))
	for i, a := range args {
		list[i] = strings.ReplaceAll(a, childPID, strconv.Itoa(pid))
	}
	return list
}

// beside runs a program for as long as the client is there.
func (b *bench) beside(c *client, cmd *exec.Cmd) (*client, error) {
	said := &lastWords{}
	cmd.Stdout, cmd.Stderr = said, said
	if err := b.host.start(cmd); err != nil {
		return nil, err
	}
	stop, own := c.stop, c.said
	c.stop = func() error { return errors.Join(stop(), end(cmd)) }
	c.said = func() string { return own() + " " + said.String() }
	return c, nil
}

// inPasta: nothing is forwarded but what the sandbox opens, and not over loopback.
func (b *bench) inPasta() func(context.Context) (*client, error) {
	args := []string{"--foreground", "--config-net", "--address", "10.0.2.100", "--netmask", "24", "--gateway", "10.0.2.2",
		"-t", "none", "-u", "none", "-T", "none", "-U", "none"}
	if os.Geteuid() == 0 {
		args = append(args, "--runas", "0") // nobody may not enter what is root's
	}
	return b.inBwrap("pasta", append(args, childPID)...)
}

func (b *bench) inSlirp() func(context.Context) (*client, error) {
	return b.inBwrap("slirp4netns", "--configure", "--mtu=65520", childPID, "eth0")
}

// vethScript joins two net namespaces by a pair of virtual cables, has the server in one
// and the client in the other.
const vethScript = `set -e
ip link set lo up
mkfifo "$2/peer-up"
unshare --net sh -c 'read -r x <"$2/peer-up"; exec "$1" serve 10.0.1.2:7070 <"$2/peer-up" >/dev/null' sh "$1" "$2" &
peer=$!
until [ "$(readlink /proc/$peer/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
ip link add veth0 type veth peer name veth1 netns $peer
ip addr add 10.0.1.1/24 dev veth0
ip link set veth0 up
nsenter --target $peer --net sh -c 'ip link set lo up; ip addr add 10.0.1.2/24 dev veth1; ip link set veth1 up'
exec 3>"$2/peer-up"
echo up >&3
exec "$1" ask 10.0.1.2:7070`

// overVeth is the floor: nothing between client and server but the kernel.
func (b *bench) overVeth(context.Context) (*client, error) {
	dir, err := os.MkdirTemp(b.dir, "veth-")
	if err != nil {
		return nil, err
	}
	return b.host.talk(exec.Command("unshare", "--user", "--map-root-user", "--net", "sh", "-c", vethScript, "sh", b.program, dir))
}

const dockerImage = "aether-lab:network"

// inDocker starts the client in a container on Docker's own bridge.
func (b *bench) inDocker(ctx context.Context) (*client, error) {
	build := exec.CommandContext(ctx, "sh", "-c", `tar -C "$1" -c client | docker import - "$2"`, "sh", b.dir, dockerImage)
	if out, err := build.CombinedOutput(); err != nil {
		first, _, _ := strings.Cut(string(out), "\n")
		return nil, fmt.Errorf("docker: %w: %.200s", err, first)
	}
	remove := func() error { return exec.Command("docker", "image", "rm", "--force", dockerImage).Run() }
	b.undo = append(b.undo, remove)
	// Killing docker's client would leave the container, whose end is that of its input.
	name := fmt.Sprintf("aether-lab-network-%d", os.Getpid())
	b.undo = append(b.undo, func() error {
		_ = exec.Command("docker", "rm", "--force", name).Run() // it may have ended
		return nil
	})
	return b.host.talk(exec.Command("docker", "run", "--rm", "--interactive", "--name", name, dockerImage, "/client", "ask", b.server))
}
