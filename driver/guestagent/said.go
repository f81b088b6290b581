package guestagent

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"aether/sandbox"
)

// keptErrors bounds what is kept of a program's standard error.
const keptErrors = 4 << 10

// Said is the end of what a program wrote to its standard error. What runs in a
// sandbox may have had a part in the text.
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
	return Printable(string(s.text))
}

// Explain adds it to why a guest service cannot be met.
func (s *Said) Explain(err error) error {
	if said := s.String(); err != nil && said != "" {
		return &sandbox.Error{Class: sandbox.ClassOf(err), Op: "guest service", Reason: said, Err: err}
	}
	return err
}

// escape is a sequence that a terminal obeys, as of colours, titles and the cursor.
var escape = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("\x1b(?:" +
		`\[[0-?]*[ -/]*[@-~]` + // a control sequence
		"|[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)" + // a string, with its end
		`|[ -/]*[0-~])`) // all else
})

// Printable is a foreign program's text without what a terminal obeys: escape
// sequences and all else that is not to be seen are left out, except for the ends of
// lines.
func Printable(text string) string {
	text = escape().ReplaceAllString(text, "")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError:
			return '?'
		case r == '\t':
			return ' '
		case r == '\n' || unicode.IsPrint(r):
			return r
		}
		return -1
	}, text))
}
