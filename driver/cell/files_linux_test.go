package cell_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"aether/guest"
	"aether/sandbox"

	pb "aether/guest/wire/filesystem"
)

// fileUsers are on whose behalf files are asked for. An ordinary user's cell has one.
func fileUsers() []string {
	if ordinary() {
		return []string{""}
	}
	return []string{"0:0", "1234:1234"}
}

// maxSeen is how much of each file is compared.
const maxSeen = 4096

// TestServiceReadsAsItsUser reads everything in /proc by way of the service and by a
// process of the same user inside: the service, which has the rights of this program,
// must give nothing that the process is not given.
func TestServiceReadsAsItsUser(t *testing.T) {
	for i, user := range fileUsers() {
		t.Run("user "+user, func(t *testing.T) {
			instance := newCell(t, sandbox.Spec{})
			c := guest.NewClient(instance.Dial, guest.ClientOptions{User: user})
			defer c.Close()
			if !ordinary() {
				other := guest.NewClient(instance.Dial, guest.ClientOptions{User: fileUsers()[1-i]})
				defer other.Close()
				if _, err := other.Start(t.Context(), shell("exec sleep 600")); err != nil {
					t.Fatal(err)
				}
			}
			// The process whose files it may read stays: that of the shell does not.
			out, err := try(t.Context(), c, shell(`sleep 600 >/dev/null 2>&1 & for f in $(find /proc -maxdepth 3 -type f 2>/dev/null | grep -v "^/proc/$$/"); do
				if timeout 60 head -c 4096 $f >/dev/null 2>&1; then echo "can $f"; else echo "not $f"; fi; done`))
			if err != nil {
				t.Fatal(err)
			}
			seen := 0
			for line := range strings.Lines(out.stdout) {
				verdict, name, _ := strings.Cut(strings.TrimSpace(line), " ")
				text, err := readSome(t, c, name)
				switch {
				case ordinary() && name[len("/proc/")] <= '9': // of a process in a namespace that this user owns
				case verdict == "not" && err == nil && text != "":
					t.Errorf("%s: %.60q, which a process inside cannot read", name, text)
				case verdict == "can" && err == nil:
					seen++
				}
			}
			if seen < 50 {
				t.Errorf("only %d files could be read", seen)
			}
			for _, name := range []string{"/proc/kallsyms", "/proc/modules", "/proc/cpuinfo", "/proc/version", "/proc/filesystems"} {
				sameInside(t, c, name)
			}
		})
	}
}

// sameInside wants the service to show a file as a process inside sees it, also by a link
// that was planted for it.
func sameInside(t *testing.T, c *guest.Client, name string) {
	out, err := try(t.Context(), c, shell(fmt.Sprintf("ln -sfn %s /tmp/planted; head -c %d %s", name, maxSeen, name)))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{name, "/tmp/planted"} {
		if text, err := readSome(t, c, path); out.Code == 0 && (err != nil || text != out.stdout) {
			t.Errorf("%s shows %.100q, %v, and inside %.100q", path, text, err, out.stdout)
		}
	}
}

func readSome(t *testing.T, c *guest.Client, name string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience(10*time.Second))
	defer cancel()
	f, err := c.Read(ctx, name)
	if err != nil {
		if ctx.Err() != nil {
			t.Errorf("%s: it hangs", name)
		}
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSeen))
	return string(text), err
}

// planted are files that no service may open for its callers, change or remove.
var planted = []string{
	"/proc/self/environ", "/proc/self/mem", "/proc/thread-self/environ", "/proc/self/fd/0", "/proc/self/root/etc/shadow",
	"/proc/1/environ", "/proc/1/mem", "/proc/1/root/etc/shadow", "/proc/1/cwd/etc/shadow", "/proc/1/exe", "/proc/1/fd/0", "/proc/1/ns/net",
	"/proc/1/oom_score_adj", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/kcore", "/proc/kmsg", "/dev/tty", "/dev/zero", "/dev/ptmx",
	"/tmp/fifo", "/tmp/socket",
}

// readable are those of them that every process inside may read.
var readable = []string{"/proc/1/oom_score_adj", "/proc/sys/kernel/core_pattern"}

// TestPlantedLinks leads the service by links to files of /proc and /dev, to fifos and
// sockets, with every call it has. None may hang, change anything or show the host.
func TestPlantedLinks(t *testing.T) {
	pattern := readHost(t, "/proc/sys/kernel/core_pattern")
	instance := newCell(t, sandbox.Spec{})
	sh(t, instance, "mkfifo /tmp/fifo; chmod 666 /tmp/fifo; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"/tmp/socket\")' || true")
	for _, user := range fileUsers() {
		c := guest.NewClient(instance.Dial, guest.ClientOptions{User: user})
		defer c.Close()
		link := "/tmp/link-of-" + user
		for _, name := range planted {
			t.Run(user+name, func(t *testing.T) {
				if out, err := try(t.Context(), c, guest.Cmd{Path: "ln", Args: []string{"-sfn", name, link}}); err != nil || out.Code != 0 {
					t.Fatal(out, err)
				}
				before := sh(t, instance, "cat /proc/1/oom_score_adj 2>/dev/null || echo hidden")
				for _, path := range []string{name, link} {
					refuses(t, c, name, path)
				}
				if after := sh(t, instance, "cat /proc/1/oom_score_adj 2>/dev/null || echo hidden"); after != before {
					t.Errorf("the score of PID 1 is %s and was %s", after, before)
				}
				if got := readHost(t, "/proc/sys/kernel/core_pattern"); got != pattern {
					t.Errorf("the host's core pattern is %q and was %q", got, pattern)
				}
			})
		}
	}
}

func readHost(t *testing.T, name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// refuses wants no contents of a file, and no change of it, from any call.
func refuses(t *testing.T, c *guest.Client, to, path string) {
	ctx, cancel := context.WithTimeout(t.Context(), patience(20*time.Second))
	defer cancel()
	if text, err := readSome(t, c, path); err == nil && text != "" && !slices.Contains(readable, to) {
		t.Errorf("read %s: %.60q", path, text)
	}
	if !strings.HasPrefix(path, "/tmp/") { // where everything is the sandbox's own, to move or to remove
		if err := c.Write(ctx, path, strings.NewReader("-17")); err == nil {
			t.Errorf("write %s succeeds", path)
		}
		if err := c.Move(ctx, path, "/tmp/moved"); err == nil {
			t.Errorf("move %s succeeds", path)
		}
		_, there := c.Stat(ctx, path)
		if err := c.Remove(ctx, path); err == nil && there == nil {
			t.Errorf("remove %s succeeds", path)
		}
	} else if err := c.Write(ctx, path, strings.NewReader("-17")); err == nil {
		t.Errorf("write through %s succeeds", path)
	}
	_, _ = c.Stat(ctx, path)    // may tell that it is there
	_, _ = c.List(ctx, path, 2) // is no directory
	watching, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	_ = c.Watch(watching, path, true, func() {}, func(*pb.FilesystemEvent) {})
	stop()
	if ctx.Err() != nil {
		t.Errorf("%s: it hangs", path)
	}
}
