package cell_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"aether/driver/cell"
	"aether/image"
	"aether/sandbox"
)

// crowdRole is a program that is told, line by line, how many cells to have alive, or
// else to make, use and end some more, one after another.
const (
	crowdRole  = "crowd"
	crowdGo    = "go"
	crowdLives = 15
	// crowdMark is a path that is looked for before the first of those and after each.
	crowdMark = "/between-two-cells"
)

func init() { roles[crowdRole] = crowd }

func crowd() (err error) {
	ctx, alive := context.Background(), 0
	driver := cell.New(cell.Options{RunDir: os.Getenv(churnRunDir),
		Images: func() (*image.Store, error) { return image.Open(os.Getenv(churnStore)) }})
	defer func() { err = errors.Join(err, driver.Close(ctx)) }()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); fmt.Println("done") {
		if in.Text() == crowdGo {
			err = lives(ctx, driver)
		}
		for want, _ := strconv.Atoi(in.Text()); alive < want && err == nil; alive++ {
			_, err = driver.Create(ctx, sandbox.Spec{})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func lives(ctx context.Context, driver sandbox.Driver) error {
	os.Lstat(crowdMark)
	for range crowdLives {
		if err := life(ctx, driver); err != nil {
			return err
		}
		os.Lstat(crowdMark)
	}
	return nil
}

// TestStartBesideMany counts the system calls of a cell's making, first command and
// end, of this program's and of the cell's, beside few cells and beside many.
func TestStartBesideMany(t *testing.T) {
	needRoot(t, "right to trace a program that makes cells")
	few, many := 10, 1000
	if testing.Short() || raceEnabled {
		many = 300
	}
	program := startCrowd(t)
	program.tell(t, strconv.Itoa(few))
	before := program.callsOfALife(t)
	program.tell(t, strconv.Itoa(many))
	after := program.callsOfALife(t)
	// What looks again for something that has not happened yet does so more often while the
	// host is busy, and is looked at again. What grows with the cells is more each time.
	for n := 0; n < 3 && len(changed(before, after)) > 0; n++ {
		after = wider(after, program.callsOfALife(t))
	}
	least := 0
	for _, name := range changed(before, after) {
		t.Errorf("a cell's life takes %v calls of %s beside %d others, and %v beside %d", before[name], name, few, after[name], many)
	}
	for _, s := range after {
		least += s.least
	}
	t.Logf("a cell's life takes at least %d system calls of %d names, besides those of the runtime", least, len(after))
}

// span is how often a system call was made in some lives: in each as often, but for
// those that look again for what has not happened yet, as some do on a busy host.
type span struct{ least, most int }

// changed are the calls of which there are more, or fewer, in each life than in any before.
func changed(before, after map[string]span) (names []string) {
	for name := range allOf(before, after) {
		if a, b := before[name], after[name]; b.least > a.most || b.most < a.least {
			names = append(names, name)
		}
	}
	return names
}

// wider has the lives of both.
func wider(a, b map[string]span) map[string]span {
	all := allOf(a, b)
	for name := range all {
		all[name] = span{min(a[name].least, b[name].least), max(a[name].most, b[name].most)}
	}
	return all
}

func allOf(a, b map[string]span) map[string]span {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// crowdProgram is a program in crowdRole.
type crowdProgram struct {
	pid   int
	in    io.Writer
	lines *bufio.Reader
}

func startCrowd(t *testing.T) crowdProgram {
	t.Helper()
	if err := life(t.Context(), firstDriver(t)); err != nil { // makes the image
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	// Without the collector the runtime makes fewer calls of its own.
	cmd.Env = append(os.Environ(), "GOGC=off", roleVariable+"="+crowdRole,
		churnStore+"="+filepath.Join(scratch, "images"), churnRunDir+"="+filepath.Join(t.TempDir(), "run"))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			t.Error(err)
		}
	})
	return crowdProgram{cmd.Process.Pid, in, bufio.NewReader(out)}
}

func (p crowdProgram) tell(t *testing.T, line string) {
	t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		t.Fatal(err)
	}
	if said, err := p.lines.ReadString('\n'); said != "done\n" {
		t.Fatalf("told %q, it says %q, %v", line, said, err)
	}
}

// callsOfALife is how often lives make each system call.
func (p crowdProgram) callsOfALife(t *testing.T) map[string]span {
	t.Helper()
	calls := traced(t, p.pid, func() { p.tell(t, crowdGo) })
	var each []map[string]int
	spans := map[string]span{}
	for _, c := range calls {
		if c.mentions(crowdMark) {
			each = append(each, map[string]int{})
		} else if len(each) > 0 && !c.ofTheRuntime() {
			each[len(each)-1][c.name]++
			spans[c.name] = span{least: math.MaxInt}
		}
	}
	if len(each) != crowdLives+1 {
		t.Fatalf("of %d calls, %d are marks", len(calls), len(each))
	}
	for name, s := range spans {
		for _, one := range each[:crowdLives] {
			s = span{min(s.least, one[name]), max(s.most, one[name])}
		}
		spans[name] = s
	}
	return spans
}
