package drivertest

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"

	"aether/internal/host/neighbourtest"
	"aether/sandbox"
)

// Files that sandboxes of one image have in common: of the image's directories of the
// host, of its layers, and of every system.
const (
	aProgram = "/usr/bin/env"
	aFile    = "/etc/passwd"
	aDevice  = "/dev/full"
)

// share is something that processes of one kernel may have in common, and sandboxes
// must not.
type share struct {
	name  string   // of the subtest, and of a weakness
	kinds []string // of neighbourtest
	file  string   // by which it is done, if by a file of the image
	flood bool     // it is used up, and not only taken
	owned bool     // only the owner of the file can
}

var locks = []string{"flock", "posix", "ofd"}

var shares = []share{
	{name: "locks of programs", kinds: locks, file: aProgram},
	{name: "locks of files", kinds: locks, file: aFile},
	{name: "locks of devices", kinds: locks, file: aDevice},
	{name: "leases", kinds: []string{"lease"}, file: aProgram, owned: true},
	{name: "abstract sockets", kinds: []string{"abstract"}},
	{name: "System V objects", kinds: []string{"sysv"}},
	{name: "message queues", kinds: []string{"mqueue"}},
	{name: "shared memory", kinds: []string{"shm"}},
	{name: "inotify instances", kinds: []string{"instances"}, flood: true},
	{name: "pages of pipes", kinds: []string{"pipes"}, flood: true},
	{name: "descriptors in flight", kinds: []string{"inflight"}, flood: true},
	{name: "pending signals", kinds: []string{"signals"}, flood: true},
	{name: "room for queues", kinds: []string{"queues"}, flood: true},
	{name: "number of processes", kinds: []string{"processes"}, flood: true},
	{name: "keys", kinds: []string{"keys"}, flood: true},
	{name: "asynchronous requests", kinds: []string{"aio"}, flood: true},
}

const (
	watchesName   = "watches of programs"
	processesName = "processes"
)

// neighbours: two sandboxes and the host neither see nor hurt each other by what all
// processes of a kernel may share. It runs alone, since some of it uses things up.
func (s *suite) neighbours(t *testing.T) {
	n := s.moveIn(t)
	known := []string{watchesName, processesName}
	for _, c := range shares {
		known = append(known, c.name)
		t.Run(c.name, func(t *testing.T) { n.apart(t, c) })
	}
	t.Run(watchesName, n.unwatched)
	t.Run(processesName, n.unseen)
	for name := range s.Weaknesses {
		if !slices.Contains(known, name) {
			t.Errorf("a weakness is declared of %q, and the suite has %q", name, known)
		}
	}
}

// neighbourhood is a program in one sandbox, which attacks, another one beside it to see
// that the attack is one, and those who must not notice.
type neighbourhood struct {
	*suite
	mark          string // of the first program, and the name of what it makes
	attacker, own *neighbour
	owner         *neighbour // an attacker whose the image's files are
	sandbox, host *neighbour
}

// someProcesses is a limit that a flood reaches.
const someProcesses = 64

func (s *suite) moveIn(t *testing.T) *neighbourhood {
	t.Helper()
	program := buildNeighbour(t)
	spec := sandbox.Spec{Limits: sandbox.Limits{Processes: someProcesses}}
	one, err := s.try(t, spec)
	if class := sandbox.ClassOf(err); class == sandbox.Unsupported || class == sandbox.Unavailable {
		spec = sandbox.Spec{} // what bounds processes is another test's affair
		one, err = s.try(t, spec)
	}
	if err != nil {
		t.Fatal(err)
	}
	other := s.make(t, spec)
	n := &neighbourhood{suite: s, mark: "neighbour-" + strings.ToLower(rand.Text())}
	n.attacker, n.own = one.neighbour(t, one.Client, program, n.mark), one.neighbour(t, one.Client, program, "beside")
	n.sandbox, n.host = other.neighbour(t, other.Client, program, "other"), s.hostNeighbour(t, program)
	if n.owner = one.asRoot(t, program); n.owner == nil {
		n.owner = n.attacker
	}
	return n
}

// apart has the attacker take something and others say whether they meet it.
func (n *neighbourhood) apart(t *testing.T, c share) {
	var breaches []string
	attacker := n.attacker
	if c.owned {
		attacker = n.owner
	}
	for _, kind := range c.kinds {
		arg := c.file
		if arg == "" {
			arg = n.mark
		}
		n.wantFree(t, kind, arg)
		took := attacker.ask(t, "hold "+kind+" "+arg)
		own, others := n.meets(t, kind, arg)
		attacker.want(t, "free", "ok")
		t.Logf("%s: %s; in the same sandbox: %s", kind, took, own)
		if breaches = append(breaches, others...); strings.HasPrefix(took, "ok") && !c.flood && !strings.HasPrefix(own, "met") {
			t.Errorf("%s: it is not met in the same sandbox either: %s", kind, own)
		}
	}
	n.judge(t, c.name, breaches)
}

// wantFree waits until nobody meets anything, as tests of other programs may have it.
func (n *neighbourhood) wantFree(t *testing.T, kind, arg string) {
	t.Helper()
	var others []string
	if !n.eventually(func() bool { _, others = n.meets(t, kind, arg); return len(others) == 0 }) {
		t.Fatalf("%s: before anything is done: %s", kind, others)
	}
}

func (n *neighbourhood) meets(t *testing.T, kind, arg string) (own string, breaches []string) {
	t.Helper()
	order := "meet " + kind + " " + arg
	own = n.own.ask(t, order)
	if said := n.sandbox.ask(t, order); !strings.HasPrefix(said, "free") {
		breaches = append(breaches, kind+": another sandbox: "+said)
	}
	if said := n.host.ask(t, "meet "+kind+" "+n.outside(arg)); !strings.HasPrefix(said, "free") {
		breaches = append(breaches, kind+": the host: "+said)
	}
	return own, breaches
}

// outside is what the host calls a file of the image.
func (n *neighbourhood) outside(arg string) string {
	if arg == aProgram || arg == aFile {
		return n.Image + arg
	}
	return arg
}

// unwatched: whoever watches a program of the image is not told who else uses it.
func (n *neighbourhood) unwatched(t *testing.T) {
	var breaches []string
	for _, kind := range []string{"inotify", "dnotify", "fanotify"} {
		took := n.attacker.ask(t, "hold "+kind+" "+aProgram)
		n.attacker.ask(t, "look") // what was before
		n.sandbox.want(t, "use "+aProgram, "ok")
		if n.attacker.ask(t, "look") != "free" {
			breaches = append(breaches, kind+": what another sandbox executes is seen")
		}
		n.host.want(t, "use "+n.outside(aProgram), "ok")
		if n.attacker.ask(t, "look") != "free" {
			breaches = append(breaches, kind+": what the host executes is seen")
		}
		n.own.want(t, "use "+aProgram, "ok")
		own := n.attacker.ask(t, "look")
		n.attacker.want(t, "free", "ok")
		t.Logf("%s: %s; in the same sandbox: %s", kind, took, own)
		if strings.HasPrefix(took, "ok") && own != "met" {
			t.Errorf("%s: nothing is seen of the same sandbox either", kind)
		}
	}
	n.judge(t, watchesName, breaches)
}

// unseen: no process of a neighbour is seen, nor can it be signalled by the number that
// the host has for it.
func (n *neighbourhood) unseen(t *testing.T) {
	n.own.want(t, "meet process "+n.mark, "met")
	var breaches []string
	if said := n.sandbox.ask(t, "meet process "+n.mark); !strings.HasPrefix(said, "free") {
		breaches = append(breaches, "another sandbox sees it: "+said)
	}
	pid, err := neighbourtest.Find(n.mark)
	if err != nil {
		t.Fatal(err)
	}
	if said := n.sandbox.ask(t, fmt.Sprint("meet pid ", pid)); pid != 0 && !strings.HasPrefix(said, "free") {
		breaches = append(breaches, "another sandbox can signal it: "+said)
	}
	n.judge(t, processesName, breaches)
}

// judge wants what was declared, and nothing else.
func (n *neighbourhood) judge(t *testing.T, name string, breaches []string) {
	t.Helper()
	why, declared := n.Weaknesses[name]
	switch {
	case declared && len(breaches) == 0:
		t.Errorf("the driver is said to be weak (%s), and is not: take it off the list", why)
	case declared:
		t.Logf("as declared (%s): %q", why, breaches)
	}
	for _, breach := range breaches {
		if !declared {
			t.Error(breach)
		}
	}
}
