package isolation

import (
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"aether/internal/host/isolationprobe"
)

// canaries are what the host has for a sandbox to find: a file, a process, and sockets that
// notice who comes.
type canaries struct {
	request   isolationprobe.Request
	dir       string
	listeners []net.Listener
	process   *exec.Cmd
	hold      io.WriteCloser // the process's input

	mu      sync.Mutex
	reached map[string]bool // by the names of probes
}

func mark(what string) string { return "aether-" + what + "-" + strings.ToLower(rand.Text()) }

// plant puts the canaries out. remove takes them away, also what a failure left.
func plant(program string) (_ *canaries, err error) {
	c := &canaries{reached: map[string]bool{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.remove())
		}
	}()
	if c.dir, err = os.MkdirTemp("", "aether-canary-"); err != nil {
		return c, err
	}
	c.request = isolationprobe.Request{Version: isolationprobe.Version, Mark: mark("canary"), File: filepath.Join(c.dir, "file"), Unix: filepath.Join(c.dir, "socket"), Abstract: mark("canary")}
	// Everybody on the host may do everything with them: what keeps a sandbox away has to be
	// its walls.
	if err := errors.Join(os.Chmod(c.dir, 0o755), os.WriteFile(c.request.File, []byte("canary\n"), 0o666), os.Chmod(c.request.File, 0o666)); err != nil {
		return c, err
	}
	if err := c.listen(); err != nil {
		return c, err
	}
	return c, c.start(program)
}

func (c *canaries) listen() error {
	if _, err := c.serve("net-unix", "unix", c.request.Unix); err != nil {
		return err
	}
	if err := os.Chmod(c.request.Unix, 0o777); err != nil {
		return err
	}
	if _, err := c.serve("net-abstract", "unix", "@"+c.request.Abstract); err != nil {
		return err
	}
	var err error
	if c.request.Loopback4, err = c.serve("net-loopback", "tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	// A host may be without IPv6 and without another address. The probe says so.
	if at, err := c.serve("net-loopback6", "tcp", "[::1]:0"); err == nil {
		c.request.Loopback6 = at
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			if at, err := c.serve("net-address", "tcp", net.JoinHostPort(n.IP.String(), "0")); err == nil {
				c.request.Address = at
				break
			}
		}
	}
	return nil
}

// serve listens and notes that somebody came.
func (c *canaries) serve(probe, network, address string) (string, error) {
	l, err := net.Listen(network, address)
	if err != nil {
		return "", err
	}
	c.listeners = append(c.listeners, l)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
			c.mu.Lock()
			c.reached[probe] = true
			c.mu.Unlock()
		}
	}()
	return l.Addr().String(), nil
}

// start starts the process, which ends when this program does.
func (c *canaries) start(program string) (err error) {
	c.process = exec.Command(program, isolationprobe.ModeWait, c.request.Mark)
	if c.hold, err = c.process.StdinPipe(); err != nil {
		return err
	}
	if err := c.process.Start(); err != nil {
		c.process = nil
		return err
	}
	return nil
}

// touched are the canaries that were reached so far.
func (c *canaries) touched() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]bool{}
	for name := range c.reached {
		all[name] = true
	}
	return all
}

func (c *canaries) remove() (err error) {
	for _, l := range c.listeners {
		err = errors.Join(err, l.Close())
	}
	if c.process != nil {
		err = errors.Join(err, c.hold.Close(), c.process.Wait())
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}
