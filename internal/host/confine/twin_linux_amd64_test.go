package confine

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"
)

// TestTwinOfPython forks a running python into other cells.
func TestTwinOfPython(t *testing.T) {
	base, err := openHost(t).Prepare(hostTree(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { base.Close() })
	config := Config{Hostname: "cell", Upper: 16 << 20, Group: noGroup}
	source := bootFrom(t, base, config)
	in, out, files := pipes(t)
	program := `
import sys, json
total = sum(range(100000))
print("primed", flush=True)
for line in sys.stdin:
    print(total + int(line), flush=True)
`
	p, inside, err := source.Exec(Command{Path: "/usr/bin/python3", Args: []string{"python3", "-c", program}, Env: []string{"PATH=/bin"}, Dir: "/tmp",
		UID: UserID, GID: UserID, Stdin: files[0], Stdout: files[1], Stderr: files[1], Group: noGroup})
	if err != nil {
		t.Fatal(err)
	}
	go p.Wait()
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); err != nil || line != "primed\n" {
		t.Fatalf("it said %q, %v", line, err)
	}
	began := time.Now()
	imprint, err := source.Imprint([]Running{{p.Pid(), -1}}, nil, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer imprint.Close()
	twin := imprint.Twins[0]
	t.Logf("process %d: twin in %v, paused %v, %d KiB", inside, time.Since(began), imprint.Pause, imprint.Copied>>10)
	fmt.Fprintln(in, 5)
	if line, err := lines.ReadString('\n'); err != nil || line != "4999950005\n" {
		t.Fatalf("the source said %q, %v", line, err)
	}
	for i := range 20 {
		if imprint, err = source.Imprint([]Running{{p.Pid(), -1}}, imprint, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		t.Logf("again: paused %v, %d KiB", imprint.Pause, imprint.Copied>>10)
		child := bootFrom(t, base, config)
		childIn, childOut, files := pipes(t)
		began := time.Now()
		q, err := twin.Spawn(child, Rebirth{Dir: "/tmp", UID: UserID, GID: UserID, Terminal: -1, Group: noGroup,
			Descriptors: []Descriptor{{Number: 0, File: files[0]}, {Number: 1, File: files[1]}, {Number: 2, File: files[1]}}})
		if err = errors.Join(err, imprint.Proceed()); err != nil {
			t.Fatal(err)
		}
		go q.Wait()
		born := time.Since(began)
		fmt.Fprintln(childIn, i)
		childOut.SetReadDeadline(time.Now().Add(2 * time.Second))
		line, err := bufio.NewReader(childOut).ReadString('\n')
		if err != nil || line != fmt.Sprintf("%d\n", 4999950000+i) {
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", q.Pid()))
			t.Fatalf("child %d said %q, %v\n%s", i, line, err, status)
		}
		t.Logf("child %d: born in %v, first reply after %v", i, born, time.Since(began))
	}
}

func pipes(t *testing.T) (in, out *os.File, theirs [2]*os.File) {
	t.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, f := range []*os.File{inR, inW, outR, outW} {
			f.Close()
		}
	})
	inR.Fd() // has both block, as programs expect
	outW.Fd()
	return inW, outR, [2]*os.File{inR, outW}
}
