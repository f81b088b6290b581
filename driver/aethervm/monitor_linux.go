package aethervm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"aether/driver/vmm"
	"aether/internal/host/launch"
	"aether/sandbox"
)

// monitor is a running aether-vmm. It is told words, some with a file, and answers each
// with a line.
type monitor struct {
	dial vmm.Dial
	conn *net.UnixConn
	// late is how many answers are to come that nobody waits for any more.
	late int
}

var (
	_ vmm.Monitor = (*monitor)(nil)
	_ vmm.Booter  = (*monitor)(nil)
	_ vmm.Forker  = (*monitor)(nil)
)

func newMonitor(dial vmm.Dial) vmm.Monitor { return &monitor{dial: dial} }

// Hello implements vmm.Monitor.
func (m *monitor) Hello(ctx context.Context) error {
	conn, err := m.dial(ctx)
	if err != nil {
		return err
	}
	var ok bool
	if m.conn, ok = conn.(*net.UnixConn); !ok {
		return errors.New("it is no socket of ours")
	}
	return m.tell(ctx, "hello")
}

var errFiles = errors.New("it boots from files that it is handed")

// Boot implements vmm.Monitor.
func (m *monitor) Boot(context.Context, vmm.Hardware, string) error { return errFiles }

// BootFrom implements vmm.Booter.
func (m *monitor) BootFrom(ctx context.Context, hw vmm.Hardware, from vmm.BootFiles) error {
	if err := m.giveDisk(ctx, from.Writable); err != nil {
		return err
	}
	return m.tell(ctx, fmt.Sprintf("boot %d %d %d %s", from.Longest, hw.MemoryMiB, hw.CPUs, from.KernelArgs), from.Root, from.Memory, from.Kernel, from.Initramfs)
}

// giveDisk hands over a writable disk, if there is one.
func (m *monitor) giveDisk(ctx context.Context, files []*os.File) error {
	if len(files) == 0 {
		return nil
	}
	return m.tell(ctx, "disk", files...)
}

// Pause implements vmm.Monitor.
func (m *monitor) Pause(ctx context.Context) error { return m.tell(ctx, "pause") }

// Resume implements vmm.Monitor.
func (m *monitor) Resume(ctx context.Context) error { return m.tell(ctx, "resume") }

// Save implements vmm.Monitor.
func (m *monitor) Save(ctx context.Context, to vmm.State) error {
	what := "save"
	if to.Over {
		what = "save over"
	}
	return m.tell(ctx, what, to.File, to.Pages)
}

// Load implements vmm.Monitor.
func (m *monitor) Load(ctx context.Context, from vmm.State) error {
	if err := m.giveDisk(ctx, from.Disk); err != nil {
		return err
	}
	what := fmt.Sprintf("load %d", from.Longest)
	if from.Lent {
		what += " lent"
	}
	return m.tell(ctx, what, append([]*os.File{from.File, from.Root}, from.Memory...)...)
}

// Fork implements vmm.Forker.
func (m *monitor) Fork(ctx context.Context, c vmm.Copying) (vmm.Copied, error) {
	files := []*os.File{c.State, c.Pages, c.Layer}
	if c.Next != nil {
		files = append(files, c.Frozen, c.Next)
	}
	said, err := m.count(ctx, "fork", files...)
	if err != nil || len(said) == 0 {
		return vmm.Copied{}, err
	}
	return vmm.Copied{Pause: time.Duration(said[0]), Kept: said[1:]}, nil
}

// Flatten implements vmm.Forker.
func (m *monitor) Flatten(ctx context.Context, layer *os.File) ([]int, error) {
	return m.count(ctx, "flatten", layer)
}

// count is ask for numbers.
func (m *monitor) count(ctx context.Context, what string, files ...*os.File) (numbers []int, err error) {
	words, err := m.ask(ctx, what, files...)
	if err != nil {
		return nil, err
	}
	for _, word := range words {
		n, err := strconv.Atoi(word)
		if err != nil || n < 0 {
			return nil, &sandbox.Error{Class: sandbox.Internal, Reason: fmt.Sprintf("%s: aether-vmm says %q", what, words)}
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// Close implements vmm.Monitor.
func (m *monitor) Close() {
	if m.conn != nil {
		_ = m.conn.Close() // it is closed with the machine, too
	}
}

// maxAnswer bounds a line of a process that a guest may have taken over.
const maxAnswer = 512

// tell has it do something, and waits until it has.
func (m *monitor) tell(ctx context.Context, what string, files ...*os.File) error {
	words, err := m.ask(ctx, what, files...)
	if err == nil && len(words) > 0 {
		verb, _, _ := strings.Cut(what, " ")
		err = &sandbox.Error{Class: sandbox.Unavailable, Reason: fmt.Sprintf("%s: aether-vmm says %q", verb, words)}
	}
	return err
}

// ask is tell, and gives what was answered beside the success.
func (m *monitor) ask(ctx context.Context, what string, files ...*os.File) ([]string, error) {
	if m.conn == nil {
		return nil, errors.New("it was not met")
	}
	verb, _, _ := strings.Cut(what, " ")
	if err := m.conn.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = m.conn.SetDeadline(time.Unix(1, 0))
		close(cut)
	})
	answer, err := m.exchange(what, files)
	if !stop() {
		<-cut // else it might end the next call
	}
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", verb, err)
	}
	words := strings.Fields(answer)
	if len(words) == 0 || words[0] != "ok" {
		return nil, &sandbox.Error{Class: sandbox.Unavailable, Reason: fmt.Sprintf("%s: aether-vmm says %q", verb, answer)}
	}
	return words[1:], nil
}

// exchange says a line and reads its answer. The process ends with its connection, so that
// this goes on after a call that was given up: its answer, which comes first, is passed over.
func (m *monitor) exchange(what string, files []*os.File) (string, error) {
	for ; m.late > 0; m.late-- {
		if _, err := m.line(); err != nil {
			return "", err
		}
	}
	var rights []byte
	if len(files) > 0 {
		rights = launch.Rights(files...)
	}
	if _, _, err := m.conn.WriteMsgUnix([]byte(what+"\n"), rights, nil); err != nil {
		return "", err
	}
	m.late++
	answer, err := m.line()
	if err == nil {
		m.late--
	}
	return answer, err
}

func (m *monitor) line() (string, error) {
	var line []byte
	for b := make([]byte, 1); len(line) < maxAnswer; line = append(line, b[0]) {
		if n, err := m.conn.Read(b); n == 0 {
			return "", err
		}
		if b[0] == '\n' {
			return string(line), nil
		}
	}
	return "", errors.New("its answer has no end")
}
