package engine

import (
	"bytes"
	"strings"
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
	tell  func(line string) // unless it is nil, is told of every line
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
			if l.tell != nil {
				l.tell(strings.ToValidUTF8(string(bytes.TrimRight(l.begun, "\r")), "?"))
			}
			l.begun = l.begun[:0]
		}
		rest = after
	}
	return len(p), nil
}

// end tells of a last line that nothing ends.
func (l *lines) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tell != nil && len(l.begun) > 0 {
		l.tell(strings.ToValidUTF8(string(l.begun), "?"))
	}
	l.begun = nil
}

// tail is the end of what was written.
func (l *lines) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(bytes.TrimSpace(l.last))
}
