package daemon

import (
	"bytes"
	"strings"
	"sync"

	"aether/sandbox"
)

// keptErrors bounds what is kept of the standard error.
const keptErrors = 4 << 10

// Said is the end of what a container wrote to its standard error.
type Said struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (s *Said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, b...)
	if len(s.text) > keptErrors {
		s.text = bytes.Clone(s.text[len(s.text)-keptErrors:])
	}
	return len(b), nil
}

func (s *Said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(s.text), "?"))
}

// Explain adds it to why a guest service cannot be met.
func (s *Said) Explain(err error) error {
	if said := s.String(); err != nil && said != "" {
		return &sandbox.Error{Class: sandbox.ClassOf(err), Op: "guest service", Reason: said, Err: err}
	}
	return err
}
