package cell_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"aether/sandbox"
)

// TestForkRunsNothingEarly: no instruction of the source's runs in a child before
// the child is confined, not even on behalf of a signal.
func TestForkRunsNothingEarly(t *testing.T) {
	needRoot(t, "fork of such cells")
	driver, _ := newDriverAhead(t, ahead)
	for _, every := range []string{"100", "300", "1000"} {
		source := create(t, driver, sandbox.Spec{})
		c := converse(t, source, 0, program(t, source, "fork_early"), every)
		c.hear(t, "primed")
		forked := 0
		for range few(100) {
			children, err := forkWithin(t, source)
			if err != nil {
				if !passes(err) {
					t.Errorf("every %s microseconds: %v", every, err)
				}
				continue
			}
			forked++
			err = ask(t.Context(), children[0], c.pid, "", fmt.Sprintln("filter 2, no new privileges 1, capabilities 0"))
			if err != nil {
				t.Errorf("every %s microseconds: %v", every, err)
			}
			destroy(t, children[0])
		}
		t.Logf("every %s microseconds: forked %d times", every, forked)
		c.say(t, "")
		c.hear(t, "filter 2, no new privileges 1, capabilities 0")
	}
}

// sibling is the first of two commands. In a child it notices that the other one
// is not there yet, and does something to it as soon as it is.
const sibling = `
import os, sys, signal
other = int(sys.stdin.readline())
print("ready", flush=True)
def there():
    try:
        os.kill(other, 0)
        return True
    except OSError: # not there, or still somebody else's
        return False
while there():
    pass
while True:
    try:
        %s
    except OSError:
        pass
`

// TestForkAmongSiblings: a command that runs in a child already can do nothing to
// one that is still being made.
func TestForkAmongSiblings(t *testing.T) {
	needRoot(t, "fork of such cells")
	driver, _ := newDriverAhead(t, ahead)
	for name, deed := range map[string]string{
		"stop": "os.kill(other, signal.SIGSTOP)",
		"kill": "os.kill(other, signal.SIGKILL)",
		"look": "open(f'/proc/{other}/mem', 'r+b', buffering=0); print('opened its memory', flush=True); break",
		"maps": "text = open(f'/proc/{other}/maps').read()\n        if 'aether' in text: print('saw its maps', flush=True); break",
		"link": "os.rename('/tmp/dir', '/tmp/gone'); os.symlink('/etc', '/tmp/dir')",
	} {
		t.Run(name, func(t *testing.T) {
			source := create(t, driver, sandbox.Spec{})
			sh(t, source, "mkdir /tmp/dir; echo mine > /tmp/dir/hostname")
			first := converse(t, source, 0, "python3", "-c", fmt.Sprintf(sibling, deed))
			second := converse(t, source, 0, "python3", "-c", "f = open('/tmp/dir/hostname'); print('primed', flush=True)\nfor line in __import__('sys').stdin: print(f.read().strip(), flush=True)")
			second.hear(t, "primed")
			first.say(t, fmt.Sprint(second.pid))
			first.hear(t, "ready")
			for range few(10) {
				children, err := forkWithin(t, source)
				if err != nil {
					t.Errorf("a fork: %v", err)
					continue
				}
				if name == "look" || name == "maps" {
					c := converse(t, children[0], first.pid)
					c.quiet(t)
				}
				if name == "link" {
					if err := ask(t.Context(), children[0], second.pid, "", "mine\n"); err != nil {
						t.Error(err)
					}
				}
				destroy(t, children[0])
			}
			second.say(t, "")
			second.hear(t, "mine")
		})
	}
}

// quiet wants nothing to be said for a while.
func (c *conversation) quiet(t *testing.T) {
	t.Helper()
	heard := make(chan string, 1)
	go func() {
		if line, err := c.lines.ReadString('\n'); err == nil {
			time.Sleep(10 * time.Millisecond) // it may have more to say
			rest, _ := c.lines.Peek(c.lines.Buffered())
			heard <- line + string(rest)
		}
	}()
	select {
	case line := <-heard:
		t.Errorf("heard %q", line)
	case <-time.After(100 * time.Millisecond):
	}
}

// mirror says, for every line, what a process of a cell can see of itself.
const mirror = `
import sys, os, json
def read(name):
    with open("/proc/self/" + name) as f: return f.read()
print("primed", flush=True)
for line in sys.stdin:
    status = dict(l.split(":\t", 1) for l in read("status").splitlines())
    keep = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters",
        "SigBlk", "SigIgn", "SigCgt", "SigPnd", "ShdPnd", "TracerPid", "Threads", "Umask", "NSpid", "NSsid", "Speculation_Store_Bypass")
    fds = {}
    for fd in os.listdir("/proc/self/fd"):
        try: fds[fd] = os.readlink("/proc/self/fd/" + fd).split(":")[0]
        except OSError: pass
    print(json.dumps({
        "status": {k: status[k] for k in keep}, "limits": read("limits"), "mountinfo": [l.split(" ", 3)[3] for l in read("mountinfo").splitlines()],
        "cgroup": read("cgroup"), "ns": {n: os.readlink("/proc/self/ns/" + n) for n in sorted(os.listdir("/proc/self/ns"))},
        "fds": fds, "maps": [l.split(None, 5) for l in read("maps").splitlines()], "environ": read("environ"), "cmdline": read("cmdline"),
        "exe": os.readlink("/proc/self/exe"), "cwd": os.getcwd(), "oom": read("oom_score_adj"), "pids": [p for p in os.listdir("/proc") if p.isdigit()],
        "uname": os.uname().nodename, "nice": os.nice(0), "affinity": sorted(os.sched_getaffinity(0)), "sessions": [os.getsid(0) == os.getpid()],
        "owner": os.stat("/proc/self/mem").st_uid, "loginuid": read("loginuid"), "keys": os.path.exists("/proc/keys") and open("/proc/keys").read(),
        "timerslack": read("timerslack_ns"), "coredump": read("coredump_filter"), "personality": read("personality")}), flush=True)
`

type reflection struct {
	Status                                                           map[string]string
	Limits, Cgroup, Environ, Cmdline, Exe, Cwd, Oom, Uname, Loginuid string
	Timerslack, Coredump, Personality                                string
	Mountinfo                                                        []string
	NS                                                               map[string]string
	Fds                                                              map[string]string
	Maps                                                             [][]string
	Pids                                                             []string
	Nice, Owner                                                      int
	Affinity                                                         []int
	Sessions                                                         []bool
}

func (c *conversation) reflect(t *testing.T) (r reflection) {
	t.Helper()
	c.say(t, "")
	line, err := c.lines.ReadString('\n')
	if err == nil {
		err = json.Unmarshal([]byte(line), &r)
	}
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	r.Maps = merge(r.Maps)
	return r
}

// merge joins areas that are alike and follow each other: the kernel may have
// them as one or as several.
func merge(areas [][]string) (merged [][]string) {
	for _, a := range areas {
		from, to, _ := strings.Cut(a[0], "-")
		if n := len(merged); n > 0 && strings.HasSuffix(merged[n-1][0], "-"+from) && merged[n-1][1] == a[1] && slices.Equal(merged[n-1][3:], a[3:]) {
			merged[n-1][0] = strings.TrimSuffix(merged[n-1][0], from) + to
			continue
		}
		merged = append(merged, a)
	}
	return merged
}

// TestForkLooksLikeACommand compares a forked process with one that was started
// in the same cell.
func TestForkLooksLikeACommand(t *testing.T) {
	needRoot(t, "fork of such cells")
	signal.Ignore(syscall.SIGHUP) // as what nohup starts does, and neither of them
	t.Cleanup(func() { signal.Reset(syscall.SIGHUP) })
	driver, _ := newDriver(t)
	source := create(t, driver, sandbox.Spec{Limits: sandbox.Limits{Processes: 100}})
	was := converse(t, source, 0, "python3", "-c", mirror)
	was.hear(t, "primed")
	for _, others := range []int{0, 2} { // after which one stands by for the next
		for range others {
			destroy(t, fork(t, source, 1)[0])
		}
		time.Sleep(50 * time.Millisecond)
		t.Run(fmt.Sprintf("after %d others", others), func(t *testing.T) { looksLikeACommand(t, source, was) })
	}
}

// settled looks until two looks are alike: the first ones grow the program's own heap.
func (c *conversation) settled(t *testing.T) reflection {
	t.Helper()
	last := c.reflect(t)
	for range 20 {
		now := c.reflect(t)
		if reflect.DeepEqual(now.Maps, last.Maps) && reflect.DeepEqual(now.Status, last.Status) {
			return now
		}
		last = now
	}
	t.Fatal("no two looks of the source at itself are alike")
	return last
}

// anyDevice leaves out which file system an area is mapped from. Every cell sees the
// files of its image through an overlay of its own; a forked process maps what is
// shared between processes anew, and has the rest from its source.
func anyDevice(maps [][]string) (list [][]string) {
	const device = 3
	for _, area := range maps {
		list = append(list, slices.Concat(area[:device], area[device+1:]))
	}
	return list
}

func looksLikeACommand(t *testing.T, source sandbox.Instance, was *conversation) {
	before := was.settled(t)
	child := fork(t, source, 1)[0]
	forked := converse(t, child, was.pid).reflect(t)
	fresh := converse(t, child, 0, "python3", "-c", mirror)
	fresh.hear(t, "primed")
	started, after := fresh.reflect(t), was.reflect(t)
	for name := range started.Status {
		want := started.Status[name]
		if name == "NSpid" || name == "NSsid" {
			want = before.Status[name]
		}
		if got := forked.Status[name]; got != want {
			t.Errorf("%s is %q, of a started command %q", name, got, want)
		}
	}
	for name, both := range map[string][2]any{
		"limits": {forked.Limits, started.Limits}, "mounts": {forked.Mountinfo, started.Mountinfo}, "cgroups": {forked.Cgroup, started.Cgroup},
		"namespaces": {forked.NS, started.NS}, "environment": {forked.Environ, started.Environ}, "command line": {forked.Cmdline, started.Cmdline},
		"program": {forked.Exe, started.Exe}, "directory": {forked.Cwd, started.Cwd}, "oom_score_adj": {forked.Oom, started.Oom},
		"descriptors": {forked.Fds, before.Fds}, "maps": {anyDevice(forked.Maps), anyDevice(before.Maps)}, "host name": {forked.Uname, started.Uname},
		"nice": {forked.Nice, started.Nice}, "affinity": {forked.Affinity, started.Affinity}, "session": {forked.Sessions, started.Sessions},
		"owner in /proc": {forked.Owner, started.Owner}, "login": {forked.Loginuid, started.Loginuid}, "processes": {forked.Pids, before.Pids},
		"timer slack": {forked.Timerslack, started.Timerslack}, "core dump filter": {forked.Coredump, started.Coredump},
		"personality":        {forked.Personality, started.Personality},
		"maps of the source": {after.Maps, before.Maps}, "descriptors of the source": {after.Fds, before.Fds},
		"status of the source": {after.Status, before.Status},
	} {
		if !reflect.DeepEqual(both[0], both[1]) {
			t.Errorf("%s: forked %v\nnot %v", name, both[0], both[1])
		}
	}
	for name, ns := range forked.NS {
		own, err := os.Readlink("/proc/self/ns/" + name)
		if err == nil && ns == own && name != "time" && name != "time_for_children" || name != "time" && name != "time_for_children" && ns == before.NS[name] && name != "user" {
			t.Errorf("the %s namespace %s is the host's (%s) or the source's (%s)", name, ns, own, before.NS[name])
		}
	}
	for _, area := range forked.Maps {
		text := strings.Join(area, " ")
		if strings.Contains(text, "aether") || strings.Contains(text, "memfd") || strings.Contains(area[1], "wx") || strings.Contains(text, scratch) {
			t.Errorf("it maps %s", text)
		}
	}
}
