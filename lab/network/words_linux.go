package network

import (
	"strings"
	"sync"
)

// lastWords are what a program said last on standard error, for people.
type lastWords struct {
	mu   sync.Mutex
	text []byte
}

const maxWords = 400

// Write implements io.Writer.
func (w *lastWords) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, b...)
	w.text = w.text[max(0, len(w.text)-maxWords):]
	return len(b), nil
}

func (w *lastWords) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.TrimSpace(string(w.text))
}
