package drivertest

import (
	"bytes"
	"strings"
	"sync"
	"testing"
)

// lines is a writer in which one can wait for a text.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func newLines() *lines { return &lines{} }

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// len is how much has come so far.
func (l *lines) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Len()
}

func (l *lines) await(t testing.TB, c Config, want string) {
	t.Helper()
	if !c.eventually(func() bool { return strings.Contains(l.String(), want) }) {
		t.Fatalf("%q does not come; there is %q", want, l.String())
	}
}
