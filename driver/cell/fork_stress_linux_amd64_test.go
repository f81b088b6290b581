package cell_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"aether/guest"
	"aether/internal/soak"
	"aether/sandbox"
)

// programs are in C because what they do to themselves no runtime does.
//
//go:embed testdata/*.c
var programs embed.FS

var compiled sync.Map // name: func() (string, error)

// program compiles one of the programs and puts it into a cell.
func program(t testing.TB, instance sandbox.Instance, name string) (path string) {
	t.Helper()
	once, _ := compiled.LoadOrStore(name, sync.OnceValues(func() ([]byte, error) { return compile(name) }))
	binary, err := once.(func() ([]byte, error))()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("this host has no C compiler")
	}
	if err != nil {
		t.Fatal(err)
	}
	path = "/tmp/" + name
	if err := client(t, instance).Write(t.Context(), path, strings.NewReader(string(binary))); err != nil {
		t.Fatal(err)
	}
	sh(t, instance, "chmod +x "+path)
	return path
}

func compile(name string) ([]byte, error) {
	source, err := programs.ReadFile("testdata/" + name + ".c")
	if err != nil {
		return nil, err
	}
	to := filepath.Join(scratch, name)
	cmd := exec.Command("gcc", "-O1", "-pthread", "-x", "c", "-o", to, "-")
	cmd.Stdin = strings.NewReader(string(source))
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return os.ReadFile(to)
}

// each is spread for what may end its goroutine: the failure of one is not the
// end of the others.
func each(count int, do func(n int)) {
	spread(count, func(n int) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			do(n)
		}()
		<-done
	})
}

// few scales a count down where each fork costs more.
func few(full int) int {
	usual := full
	if raceEnabled || testing.Short() {
		usual = max(full/10, 2)
	}
	return soak.Count(usual, full)
}

const chainLength = 100_000

// chain is in the midst of its work, not waiting, when it is forked.
const chain = `
import sys, hashlib
print("primed", flush=True)
h = b""
for i in range(%d):
    h = hashlib.sha256(h).digest()
for line in sys.stdin:
    h = hashlib.sha256(h + line.strip().encode()).digest()
    print(h.hex(), flush=True)
`

var chainEnd = sync.OnceValue(func() (h []byte) {
	for range chainLength {
		sum := sha256.Sum256(h)
		h = sum[:]
	}
	return h
})

func link(h []byte, input string) []byte {
	sum := sha256.Sum256(append(h[:len(h):len(h)], input...))
	return sum[:]
}

func TestForkInTheMiddleOfAComputation(t *testing.T) {
	needRoot(t, "fork of such cells")
	driver, _ := newDriverAhead(t, ahead)
	source := create(t, driver, sandbox.Spec{})
	python := converse(t, source, 0, "python3", "-c", fmt.Sprintf(chain, chainLength))
	python.hear(t, "primed")
	began := time.Now()
	children := fork(t, source, few(200))
	t.Logf("%d children in %v", len(children), time.Since(began).Round(time.Millisecond))
	python.say(t, "source")
	python.hear(t, hex.EncodeToString(link(chainEnd(), "source")))
	each(len(children), func(n int) {
		c := converse(t, children[n], python.pid)
		input := fmt.Sprintf("child %d", n)
		c.say(t, input)
		c.hear(t, hex.EncodeToString(link(chainEnd(), input)))
	})
}

const nodeChain = `
const crypto = require('crypto'), readline = require('readline');
let h = Buffer.alloc(0), left = %d;
const sum = (...parts) => { const s = crypto.createHash('sha256'); for (const p of parts) s.update(p); return s.digest(); };
console.log('primed');
const work = () => { for (let i = 0; i < 1000 && left > 0; i++, left--) h = sum(h); if (left > 0) setImmediate(work); else listen(); };
const listen = () => readline.createInterface({input: process.stdin}).on('line', (line) => { h = sum(h, line); console.log(h.toString('hex')); });
work();
`

func TestForkOfNodeInTheMiddleOfAComputation(t *testing.T) {
	needRoot(t, "fork of such cells")
	driver, _ := newDriverAhead(t, ahead)
	source := create(t, driver, sandbox.Spec{})
	node := converse(t, source, 0, "node", "-e", fmt.Sprintf(nodeChain, chainLength))
	node.hear(t, "primed")
	began := time.Now()
	children := fork(t, source, few(20))
	t.Logf("%d children in %v", len(children), time.Since(began).Round(time.Millisecond))
	node.say(t, "source")
	node.hear(t, hex.EncodeToString(link(chainEnd(), "source")))
	each(len(children), func(n int) {
		c := converse(t, children[n], node.pid)
		input := fmt.Sprintf("child %d", n)
		c.say(t, input)
		c.hear(t, hex.EncodeToString(link(chainEnd(), input)))
	})
}

// added is what the threads' program answers to one number after another.
func added(numbers ...int) (total int) {
	const threads, turns = 8, 100
	total = threads * (threads - 1) / 2
	for _, n := range numbers {
		total += threads * turns * n
	}
	return total
}

func TestForkOfThreads(t *testing.T) {
	needRoot(t, "fork of such cells")
	driver, _ := newDriverAhead(t, ahead)
	source := create(t, driver, sandbox.Spec{})
	threads := converse(t, source, 0, program(t, source, "fork_threads"))
	threads.hear(t, "primed")
	threads.say(t, "3")
	threads.hear(t, fmt.Sprint(added(3)))
	threads.say(t, "5") // they are at it when they are forked
	children := fork(t, source, few(200))
	threads.hear(t, fmt.Sprint(added(3, 5)))
	threads.say(t, "7")
	threads.hear(t, fmt.Sprint(added(3, 5, 7)))
	each(len(children), func(n int) {
		c := converse(t, children[n], threads.pid)
		c.say(t, fmt.Sprint(n))
		line, err := c.lines.ReadString('\n')
		if line == fmt.Sprintln(added(3, 5)) && n > 0 { // it was forked before it could answer
			line, err = c.lines.ReadString('\n')
		}
		if err != nil || line != fmt.Sprintln(added(3, 5, n)) {
			t.Errorf("child %d said %q, %v", n, line, err)
		}
	})
}

// TestForkOfAThrottledCell forks a program that has used up its share of the
// processors: what it is asked it can answer only when it has more.
func TestForkOfAThrottledCell(t *testing.T) {
	needRoot(t, "limits of processors")
	driver, _ := newDriverAhead(t, ahead)
	source := create(t, driver, sandbox.Spec{Limits: sandbox.Limits{CPUs: 0.1}})
	python := converse(t, source, 0, "python3", "-c", `
import sys, threading
def spin():
    while True: pass
print("primed", flush=True)
for line in sys.stdin:
    if line == "spin\n": threading.Thread(target=spin, daemon=True).start()
    print(line, end="", flush=True)
`)
	python.hear(t, "primed")
	python.say(t, "spin")
	python.hear(t, "spin")
	for range 3 {
		child := converse(t, fork(t, source, 1)[0], python.pid)
		child.say(t, "child")
		child.hear(t, "child")
		python.say(t, "source")
		python.hear(t, "source")
	}
}

// goRole is a program in Go: threads, signals and timers of a runtime.
const goRole = "goroutines"

func init() { roles[goRole] = goroutines }

// goroutines adds every number that it reads in several goroutines, each of
// which sleeps and yields.
func goroutines() error {
	totals := make([]int, 8)
	fmt.Println("primed")
	for {
		var n int
		if _, err := fmt.Scanln(&n); err != nil {
			return nil
		}
		var group sync.WaitGroup
		for i := range totals {
			group.Go(func() {
				for range 1000 {
					totals[i] += n
				}
				time.Sleep(time.Millisecond)
			})
		}
		group.Wait()
		sum := 0
		for _, total := range totals {
			sum += total
		}
		fmt.Println(sum)
	}
}

func TestForkOfGo(t *testing.T) {
	needRoot(t, "fork of such cells")
	driver, _ := newDriverAhead(t, ahead)
	source := create(t, driver, sandbox.Spec{})
	binary, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	if err := client(t, source).Write(t.Context(), "/tmp/written", binary); err != nil {
		t.Fatal(err)
	}
	// A cell that is made ahead meanwhile may hold the file open, which cannot be executed then.
	sh(t, source, "cp /tmp/written /tmp/program && chmod +x /tmp/program && rm /tmp/written")
	c := converse(t, source, 0, "env", roleVariable+"="+goRole, "/tmp/program")
	c.hear(t, "primed")
	c.say(t, "2")
	c.hear(t, "16000")
	children := fork(t, source, few(20))
	c.say(t, "3")
	c.hear(t, "40000")
	each(len(children), func(n int) {
		child := converse(t, children[n], c.pid)
		child.say(t, fmt.Sprint(n))
		child.hear(t, fmt.Sprint(16000+8000*n))
	})
}

func TestForkOfForks(t *testing.T) {
	needRoot(t, "fork of such cells")
	driver, _ := newDriverAhead(t, ahead)
	instance := create(t, driver, sandbox.Spec{})
	python := converse(t, instance, 0, "python3", "-c", adder)
	python.hear(t, "primed")
	const first = 4999950000
	for depth := range few(40) {
		c := python
		if depth > 0 {
			c = converse(t, instance, python.pid)
		}
		c.say(t, "0")
		c.hear(t, fmt.Sprintf("%d %d written before", first+depth, python.pid))
		instance = fork(t, instance, 1)[0]
	}
}

func forkAndEnd(t *testing.T, source sandbox.Instance) error {
	children, err := source.(sandbox.Forker).Fork(t.Context(), make([]sandbox.Spec, 1))
	if err != nil {
		return err
	}
	return children[0].Destroy(t.Context())
}

// TestForksInTurn forks one source a thousand times, and in a soak ten thousand. What
// is counted one by one, as processes, mounts and descriptors, shows a leak after few;
// one of bytes alone, of the heap or the kernel's, may want them all.
func TestForksInTurn(t *testing.T) {
	needRoot(t, "fork of such cells")
	driver, runDir := newDriverAhead(t, ahead)
	source := create(t, driver, sandbox.Spec{})
	python := converse(t, source, 0, "python3", "-c", adder)
	python.hear(t, "primed")
	one := func() error { return forkAndEnd(t, source) }
	for range 20 {
		if err := one(); err != nil {
			t.Fatal(err)
		}
	}
	warm(t, driver, standing(t, ahead)+4, one) // PID 1 of the source, Python, its zygote and a warm fork
	before := takeCensus(t, runDir)
	began, count := time.Now(), soak.Count(few(1000), 10_000)
	for n := range count {
		if err := one(); err != nil {
			t.Fatalf("fork %d: %v", n, err)
		}
	}
	took := time.Since(began)
	t.Logf("%d forks in %v: %v each", count, took.Round(time.Millisecond), (took / time.Duration(count)).Round(time.Microsecond))
	python.say(t, "0")
	python.hear(t, fmt.Sprintf("4999950000 %d written before", python.pid))
	wantNoGrowth(t, before, runDir)
}

func TestForksAtOnce(t *testing.T) {
	needRoot(t, "fork of such cells")
	driver, runDir := newDriverAhead(t, ahead)
	source := create(t, driver, sandbox.Spec{})
	python := converse(t, source, 0, "python3", "-c", adder)
	python.hear(t, "primed")
	one := func() error { return forkAndEnd(t, source) }
	if err := errors.Join(one(), one()); err != nil { // something of it is kept for the next
		t.Fatal(err)
	}
	warm(t, driver, standing(t, ahead)+4, one) // PID 1 of the source, Python, its zygote and a warm fork
	before := takeCensus(t, runDir)
	var callers sync.WaitGroup
	for n := range few(200) {
		callers.Go(func() {
			children, err := source.(sandbox.Forker).Fork(t.Context(), make([]sandbox.Spec, 1))
			if err != nil {
				t.Errorf("fork %d: %v", n, err)
				return
			}
			if err := ask(t.Context(), children[0], python.pid, fmt.Sprint(n), fmt.Sprintf("%d %d written before\n", 4999950000+n, python.pid)); err != nil {
				t.Errorf("child %d: %v", n, err)
			}
			destroy(t, children[0])
		})
	}
	callers.Wait()
	python.say(t, "1")
	python.hear(t, fmt.Sprintf("4999950001 %d written before", python.pid))
	wantNoGrowth(t, before, runDir)
}

// ask says one line to a process of a cell and compares what it answers before
// its input's end ends it. Nothing is left of the asking.
func ask(ctx context.Context, instance sandbox.Instance, pid int, line, want string) error {
	c := guest.NewClient(instance.Dial, guest.ClientOptions{})
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, patience(15*time.Second))
	defer cancel()
	var said bytes.Buffer
	running, err := c.Connect(ctx, pid, guest.Cmd{Stdin: strings.NewReader(line + "\n"), Stdout: &said, Stderr: &said})
	if err != nil {
		return err
	}
	defer running.Close()
	status, err := running.Wait()
	if err != nil || status.Code != 0 || status.Signal != 0 || said.String() != want {
		return fmt.Errorf("it said %q, not %q, and ended with %+v, %v", said.String(), want, status, err)
	}
	return nil
}
