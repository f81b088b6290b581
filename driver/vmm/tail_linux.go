package vmm

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"unicode"

	"aether/sandbox"
)

// maxTail is how much of a monitor's messages is kept: enough to say why it ended.
const maxTail = 8 << 10

// tail keeps the end of an output.
type tail struct {
	mu   sync.Mutex
	most int
	text []byte
	cut  bool // there was more before
	// halted, if not nil, is closed when a kernel has said that it does nothing
	// any more.
	halted chan struct{}
	over   bool
}

// halts is what a kernel says last that finds no way to switch its machine off.
// A guest may say so at any time, and is taken at its word.
var halts = []byte("reboot: System halted")

// newConsole keeps the end of what a guest's kernel says.
func newConsole() *tail { return &tail{most: sandbox.MaxConsole, halted: make(chan struct{})} }

// newMessages keeps the end of what a monitor says.
func newMessages() *tail { return &tail{most: maxTail} }

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := max(0, len(t.text)-len(halts)) // what was looked at before
	t.text = append(t.text, b...)
	if t.halted != nil && !t.over && bytes.Contains(t.text[known:], halts) {
		t.over = true
		close(t.halted)
	}
	if over := len(t.text) - t.most; over > 0 {
		t.text, t.cut = append(t.text[:0], t.text[over:]...), true
	}
	return len(b), nil
}

// end is what is kept, and whether there was more.
func (t *tail) end() ([]byte, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.text), t.cut
}

// telling begin the lines that say why a guest ended; what follows one is of use
// to those who wrote the kernel.
var telling = []string{"Kernel panic", "aether-guest:"}

// String gives the lines that tell most, else the last few, as one line with
// nothing in it that a terminal would act on: a guest wrote it.
func (t *tail) String() string {
	const lines = 6
	t.mu.Lock()
	defer t.mu.Unlock()
	var all, best []string
	for line := range strings.Lines(string(t.text)) {
		line = strings.TrimSpace(strings.Map(printable, line))
		if line == "" {
			continue
		}
		all = append(all, line)
		if slices.ContainsFunc(telling, func(word string) bool { return strings.Contains(line, word) }) {
			best = append(best, line)
		}
	}
	if len(best) > 0 {
		all = best
	}
	return strings.Join(all[max(0, len(all)-lines):], " | ")
}

func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return -1
}
