package confine

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aether/internal/host/cgroup"
)

var noGroup cgroup.Way

// hostTree is a bare root over this machine's /usr.
func hostTree(t testing.TB) Tree {
	t.Helper()
	tree, err := plantTree(filepath.Join(t.TempDir(), "layer"))
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func plantTree(layer string) (Tree, error) {
	for _, dir := range []string{"dev", "proc", "tmp", "usr", "home/user", "etc"} {
		if err := os.MkdirAll(filepath.Join(layer, dir), 0o755); err != nil {
			return Tree{}, err
		}
	}
	for _, dir := range []string{"tmp", "home/user"} {
		if err := os.Chmod(filepath.Join(layer, dir), 0o1777); err != nil {
			return Tree{}, err
		}
	}
	for _, link := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+link, filepath.Join(layer, link)); err != nil {
			return Tree{}, err
		}
	}
	return Tree{Layers: []string{layer}, Binds: []Bind{{Source: "/usr", Target: "/usr"}}}, nil
}

func openHost(t testing.TB) *Host { return openHostWith(t, Options{}) }

func openHostWith(t testing.TB, opts Options) *Host {
	t.Helper()
	opts.Dir = t.TempDir()
	h, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

func bootCell(t testing.TB) *Cell {
	t.Helper()
	base, err := openHost(t).Prepare(hostTree(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { base.Close() })
	return bootFrom(t, base, Config{Hostname: "cell", Upper: 16 << 20, Group: noGroup})
}

func bootFrom(t testing.TB, base *Base, config Config) *Cell {
	t.Helper()
	cell, err := base.Boot(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endCell(t, cell) })
	return cell
}

func endCell(t testing.TB, cell *Cell) {
	t.Helper()
	if err := cell.Kill(); err != nil {
		t.Error(err)
	}
	if _, err := cell.Wait(); err != nil {
		t.Error(err)
	}
}

// sh runs a shell command as the ordinary user and gives its output and code.
func sh(t testing.TB, cell *Cell, text string) (string, int) {
	t.Helper()
	return shAs(t, cell, UserID, text)
}

// shAs is sh as somebody else.
func shAs(t testing.TB, cell *Cell, id uint32, text string) (string, int) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	p, _, err := cell.Exec(Command{Path: "/bin/sh", Args: []string{"sh", "-c", text}, Env: []string{"PATH=/bin"}, Dir: "/tmp",
		UID: id, GID: id, Stdout: write, Stderr: write, Group: noGroup})
	write.Close()
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(read)
	if err != nil {
		t.Fatal(err)
	}
	status, err := p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out)), status.Code
}

// TestCell looks at an ordinary cell as a program in it does.
func TestCell(t *testing.T) {
	cell := bootCell(t)
	for _, c := range []struct{ name, command, want string }{
		{"user", "id -u; id -g", "1000\n1000"},
		{"host name", "uname -n", "cell"},
		{"PID 1", "tr -d '\\0' < /proc/1/cmdline", "aether-init"},
		{"root directory", "ls /", "bin\ndev\netc\nhome\nlib\nlib64\nproc\nsbin\ntmp\nusr"},
		{"devices", "ls /dev", "fd\nfull\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero"},
		{"devices work", "echo x > /dev/null; head -c 4 /dev/zero | wc -c; head -c 4 /dev/urandom | wc -c", "4\n4"},
		{"working directory", "pwd", "/tmp"},
		{"environment", "env | grep -v -e ^PWD= -e ^_= -e ^OLDPWD= -e ^SHLVL=", "PATH=/bin"},
		{"writes", "echo x > /tmp/x && cat /tmp/x", "x"},
		{"shared memory", "echo x > /dev/shm/x && cat /dev/shm/x", "x"},
		{"interfaces", "ls /proc/sys/net/ipv4/conf", "all\ndefault\nlo"},
		{"mask for new files", "umask", "0022"},
		{"session", "cut -d ' ' -f 6 /proc/$$/stat; echo $$", ""},
		{"orphans are reaped", "(sleep 0.01 & echo $! > /tmp/orphan); read n < /tmp/orphan; for i in $(seq 6000); do [ -e /proc/$n ] || exit 0; sleep 0.01; done; cat /proc/$n/status", ""},
	} {
		if c.name == "PID 1" && cell.host.Identity.isRoot() {
			continue // such a cell sees no process that it cannot trace
		}
		out, code := sh(t, cell, c.command)
		if c.name == "session" {
			if session, pid, _ := strings.Cut(out, "\n"); session != pid {
				t.Errorf("%s: process %s is in session %s", c.name, pid, session)
			}
		} else if out != c.want || code != 0 {
			t.Errorf("%s: %q gave %q and code %d, not %q", c.name, c.command, out, code, c.want)
		}
	}
	if _, code := sh(t, cell, "exit 3"); code != 3 {
		t.Errorf("exit code %d, not 3", code)
	}
}

// TestCloseWaitsForCommands closes a host while a command is on its way in.
func TestCloseWaitsForCommands(t *testing.T) {
	h, err := Open(Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	base, err := h.Prepare(hostTree(t))
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	cell := bootFrom(t, base, Config{Hostname: "cell", Upper: 16 << 20, Group: noGroup})
	first, ended := make(chan struct{}), make(chan error)
	go func() {
		for n := 0; ; n++ {
			p, _, err := cell.Exec(Command{Path: "/bin/true", Args: []string{"true"}, Dir: "/", UID: UserID, GID: UserID, Group: noGroup})
			if err != nil {
				ended <- err
				return
			}
			if p.Wait(); n == 0 {
				close(first)
			}
		}
	}()
	<-first
	h.Close()
	if err := <-ended; err == nil {
		t.Error("a command was started in a cell that had ended")
	}
}
