package confine

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"aether/internal/host/spawn"
	"aether/internal/unprivtest"

	"golang.org/x/sys/unix"
)

// TestEscape tries to break each promise of a cell from inside, as the three kinds
// of users who run cells.
func TestEscape(t *testing.T) {
	t.Run("root", func(t *testing.T) {
		if currentIdentity().Single {
			t.Skip("these tests are not run by root, so no cell is")
		}
		escape(t, false)
	})
	t.Run("root, by who stands by", func(t *testing.T) {
		if currentIdentity().Single {
			t.Skip("nobody stands by for the cells of an ordinary user")
		}
		escape(t, true)
	})
	t.Run("ordinary", func(t *testing.T) {
		if currentIdentity().Single {
			escape(t, false)
			return
		}
		unprivtest.AsOrdinaryUser(t, again)
	})
	t.Run("root without rights", func(t *testing.T) { unprivtest.AsRootWithoutRights(t, again) })
}

// again are the tests that are run by others than root as well.
var again = []string{"-test.run=^TestEscape|^TestCell$|^TestBlank$|Writes"}

func escape(t *testing.T, ready bool) {
	s := newScene(t)
	s.ready = ready
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			for _, who := range s.whos() {
				s.judge(t, a, who)
			}
		})
	}
	type wall struct {
		name string
		test func(*testing.T, *scene)
	}
	walls := []wall{
		{"writes stay inside", writesStayInside}, {"foreign ABI", foreignABIKills}, {"links in the image", linksInTheImage},
		{"other cells", otherCells}, {"outlive destroy", outliveDestroy}, {"entering", entering}, {"stopped on entering", stoppedOnEntering},
		{"held up by others", othersAreNotHeldUp},
		{"fork bomb", processesAreBounded}, {"threads", threadsAreBounded}, {"disk", diskIsBounded}, {"counted things", countedThings},
		{"groups", groupsBound}, {"out of memory", outOfMemoryStaysInside}, {"shared files", sharedFiles}, {"open files of /proc", openedInProc},
	}
	if !s.ready { // who brings the attacker in makes no difference to these
		walls = append(walls, wall{"memory", memoryIsBounded}, wall{"victims", nobodyNotices})
	}
	for _, c := range walls {
		t.Run(c.name, func(t *testing.T) { c.test(t, s) })
	}
}

// scene is a host with canaries, and a base for cells on it.
type scene struct {
	host  *Host
	base  *Base
	layer string
	facts facts
	ready bool // attackers are brought in by who stands by

	canary  *exec.Cmd
	visited chan string // listeners of the host that somebody reached
}

// who is an identity inside.
type who struct {
	name string
	id   uint32
}

func (s *scene) whos() []who {
	if s.host.Identity.Single {
		return []who{{"user", UserID}}
	}
	return []who{{"user", UserID}, {"root", 0}}
}

// secret stands in this program's memory, on the heap, and in its environment.
var secret = []byte("canary-" + strings.Repeat("d41d8cd98f", 3))

// newScene sets the scene. without are parts that cells do not get.
func newScene(t *testing.T, without ...string) *scene {
	t.Helper()
	// As with a driver that makes many cells, which has more ways from one to the next.
	s := &scene{host: openHostWith(t, Options{KeepNetworks: true}), visited: make(chan string, 64)}
	s.host.without = map[string]bool{}
	for _, name := range without {
		s.host.without[name] = true
	}
	s.image(t)
	s.facts = facts{Secret: string(secret), Address: uint64(uintptr(unsafe.Pointer(&secret[0]))), Hostname: "cell"}
	s.hideSecret(t)
	s.startCanary(t)
	s.listen(t)
	return s
}

// image is a bare tree with a set-id program and a file that everybody may write.
func (s *scene) image(t *testing.T) {
	t.Helper()
	tree := hostTree(t)
	s.layer = tree.Layers[0]
	program, err := os.ReadFile("/usr/bin/id")
	path := s.layer + setIDProgram
	err = errors.Join(err, os.WriteFile(path, program, 0o755), os.Chmod(path, 0o755|os.ModeSetuid|os.ModeSetgid),
		os.WriteFile(s.layer+"/etc/writable", []byte("lower"), 0o666), os.Chmod(s.layer+"/etc/writable", 0o666),
		os.Mkdir(s.layer+"/etc/open", 0o777), os.Chmod(s.layer+"/etc/open", 0o777), os.WriteFile(s.layer+"/etc/open/file", nil, 0o666))
	if err != nil {
		t.Fatal(err)
	}
	if s.base, err = s.host.Prepare(tree); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.base.Close() })
}

// hideSecret writes a file that every user of the host may read.
func (s *scene) hideSecret(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "aether-canary")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s.facts.File = filepath.Join(dir, "secret")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(s.facts.File, secret, 0o644)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AETHER_CANARY", string(secret))
}

func (s *scene) startCanary(t *testing.T) {
	t.Helper()
	s.canary = exec.Command("/bin/sleep", "7200")
	if !s.host.Identity.Single { // the user that the next cell has outside
		ids, err := s.host.claimIDs()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.host.releaseIDs(ids); err != nil {
			t.Fatal(err)
		}
		id := uint32(ids.base + UserID)
		s.canary.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
	}
	if err := s.canary.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.canary.Process.Kill(); s.canary.Wait() })
	s.facts.Pid = s.canary.Process.Pid
}

func (s *scene) listen(t *testing.T) {
	t.Helper()
	s.facts.Abstract = "aether-canary-" + filepath.Base(filepath.Dir(s.facts.File))
	for _, at := range [][2]string{{"tcp4", "127.0.0.1:0"}, {"unix", "@" + s.facts.Abstract}} {
		l, err := net.Listen(at[0], at[1])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		if tcp, ok := l.Addr().(*net.TCPAddr); ok {
			s.facts.Port = tcp.Port
		}
		go s.accept(l, at[0])
	}
}

func (s *scene) accept(l net.Listener, name string) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		conn.Close()
		s.visited <- name
	}
}

const attacker = "/attacker"

// boot makes a cell in which the attacker is shown.
func (s *scene) boot(t *testing.T, edits ...func(*Config)) *Cell {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	config := Config{Hostname: s.facts.Hostname, Upper: 16 << 20, Ready: s.ready, Group: noGroup, Mounts: []Mount{{Source: self, Target: attacker}}}
	for _, edit := range edits {
		edit(&config)
	}
	return bootFrom(t, s.base, config)
}

// running is an attack in a cell.
type running struct {
	*spawn.Process
	out  *os.File      // what it prints
	done chan struct{} // closed when it has ended
}

func (r running) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// start starts an attack in a cell.
func (s *scene) start(t *testing.T, cell *Cell, name string, who who, f facts) running {
	t.Helper()
	known, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close() })
	defer write.Close()
	if s.ready && cell.standby() {
		if err := errors.Join(cell.dismiss(), cell.ready(credentials{uid: who.id, gid: who.id})); err != nil {
			t.Fatal(err)
		}
	}
	p, _, err := cell.Exec(Command{Path: attacker, Args: []string{"a-" + name}, Dir: "/tmp", UID: who.id, GID: who.id,
		Env:    []string{"PATH=/bin", attackVariable + "=" + name, factsVariable + "=" + string(known), "GORACE=atexit_sleep_ms=0"},
		Stdout: write, Stderr: write, Group: cell.config.Group})
	if err != nil {
		t.Fatal(err)
	}
	r := running{p, read, make(chan struct{})}
	go func() {
		defer close(r.done)
		p.Wait() // the cell's end waits for this too; run gives its status
	}()
	return r
}

// run makes an attack and gives what it printed and how it ended.
func (s *scene) run(t *testing.T, cell *Cell, name string, who who, f facts) (string, spawn.Status) {
	t.Helper()
	r := s.start(t, cell, name, who, f)
	out, err := io.ReadAll(r.out)
	if err != nil {
		t.Fatal(err)
	}
	status, err := r.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return string(out), status
}

// answers makes an attack's trials and gives what came of each.
func (s *scene) answers(t *testing.T, cell *Cell, name string, who who, f facts) map[string]answer {
	t.Helper()
	out, status := s.run(t, cell, name, who, f)
	if status.Code != 0 || status.Signal != 0 {
		t.Fatalf("the attack %s ended with %+v: %s", name, status, out)
	}
	list := map[string]answer{}
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
		var a answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			t.Logf("%s says: %s", name, lines.Text())
			continue
		}
		if _, twice := list[a.Trial]; twice {
			t.Errorf("%s: %s was tried twice", name, a.Trial)
		}
		list[a.Trial] = a
	}
	return list
}

// judge makes one attack in a fresh cell and says what it should not have done.
func (s *scene) judge(t *testing.T, a attack, who who) {
	t.Helper()
	cell := s.boot(t)
	s.compare(t, who.name, a.trials(s.facts), s.answers(t, cell, a.name, who, s.facts))
	s.untouched(t, cell)
}

func (s *scene) compare(t *testing.T, who string, trials []trial, got map[string]answer) {
	t.Helper()
	for _, tr := range trials {
		a, made := got[tr.name]
		switch {
		case !made:
			t.Errorf("%s: %s: not tried", who, tr.name)
		case a.Passed:
			t.Errorf("%s: %s: the wall was passed", who, tr.name)
		case len(tr.want) > 0 && !slices.Contains(tr.want, a.Errno):
			t.Errorf("%s: %s: answers %s, not %v", who, tr.name, a.Text, tr.want)
		}
	}
}

// untouched looks at the canaries and at the cell's own PID 1.
func (s *scene) untouched(t *testing.T, cell *Cell) {
	t.Helper()
	if err := s.canary.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the canary process: %v", err)
	}
	if state := processState(s.canary.Process.Pid); state == "Z" || state == "T" {
		t.Errorf("the canary process is in state %s", state)
	}
	if content, err := os.ReadFile(s.facts.File); err != nil || string(content) != s.facts.Secret {
		t.Errorf("the canary file holds %q (%v)", content, err)
	}
	select {
	case name := <-s.visited:
		t.Errorf("the host's %s listener was reached", name)
	default:
	}
	if err := cell.init.Signal(0); err != nil {
		t.Errorf("PID 1 of the cell: %v", err)
	}
}

func processState(pid int) string {
	stat := (proc{pid}).text("stat")
	_, rest, _ := strings.Cut(stat, ") ")
	state, _, _ := strings.Cut(rest, " ")
	return state
}

// foreignABIKills: the 32-bit entry has other numbers, which no list judges.
func foreignABIKills(t *testing.T, s *scene) {
	if runtimeHasOneABI {
		t.Skip("this architecture has one system call entry for 64-bit programs")
	}
	out, status := s.run(t, s.boot(t), "abi", who{"user", UserID}, s.facts)
	if status.Signal != unix.SIGSYS {
		t.Errorf("a 32-bit system call: %+v, %q", status, out)
	}
}
