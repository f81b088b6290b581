package engine

import (
	"bytes"
	"sync"
)

// maxLine bounds the lines of a command's output that are looked at.
const maxLine = 4096

// lines looks for a text in the lines of an output and keeps the last of it for
// errors. What a line has beyond the bound is not looked at.
type lines struct {
	want  []byte
	seen  chan struct{} // closed when the text was seen
	once  sync.Once
	mu    sync.Mutex
	begun []byte // of the line that is not complete
	last  []byte
}

func newLines(want string) *lines {
	return &lines{want: []byte(want), seen: make(chan struct{})}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = append(l.last, p...)
	l.last = l.last[max(0, len(l.last)-maxLine):]
	for rest := p; len(rest) > 0; {
		piece, after, ended := bytes.Cut(rest, []byte("\n"))
		l.begun = append(l.begun, piece[:min(len(piece), maxLine-len(l.begun))]...)
		if len(l.want) > 0 && bytes.Contains(l.begun, l.want) {
			l.once.Do(func() { close(l.seen) })
		}
		if ended {
			l.begun = l.begun[:0]
		}
		rest = after
	}
	return len(p), nil
}

// tail is the end of what was written.
func (l *lines) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(bytes.TrimSpace(l.last))
}
