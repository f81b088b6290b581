package cli

import (
	"io"
	"strings"
	"sync"

	"aether/agent"
)

// maxWaiting bounds what lines say while another one speaks.
const maxWaiting = 256 << 10

// speech shows what models say on a terminal as it comes. Of lines that speak at once, one is
// heard; what the others say, and what is told meanwhile, waits until its turn is over.
type speech struct {
	mu      sync.Mutex
	to      io.Writer
	speaker string            // whose turn is being shown
	said    map[string]string // in the turn that is not over, by line
	waiting []string          // what is shown when the speaker has ended
	last    string            // the turn that was shown last, if nothing came after it
}

func newSpeech(to io.Writer) *speech { return &speech{to: to, said: map[string]string{}} }

// print shows text. Nobody is left to tell if the terminal cannot be written to.
func (s *speech) print(text string) { _, _ = io.WriteString(s.to, text) }

// hear is told what a line says, of many lines at once.
func (s *speech) hear(line, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.speaker == "" && s.said[line] == "" {
		s.speaker = line
		s.print(visible(line) + ": ")
	}
	if s.speaker == line {
		s.print(visibleLines(text))
	}
	if len(s.said[line]) < maxWaiting {
		s.said[line] += text
	}
}

// watch is told what happens, and tells it by a function that gives a line of text, or none.
func (s *speech) watch(e agent.Entry, tell func(agent.Entry) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := tell(e)
	if text != "" {
		text += "\n"
	}
	if e.Kind == agent.Replied {
		if s.said[e.Line] == "" && e.Reply != nil {
			s.said[e.Line] = e.Reply.Text // as from whoever does not stream
		}
		text = s.end(e.Line) + text
	}
	if text == "" {
		return
	}
	if s.waiting = append(s.waiting, text); s.speaker == "" {
		s.flush()
	}
}

// end is that of a line's turn: it gives what of it was not shown yet.
func (s *speech) end(line string) string {
	said := s.said[line]
	delete(s.said, line)
	switch {
	case s.speaker == line:
		s.speaker = ""
		s.print("\n")
		s.flush()
		s.last = said
		return ""
	case said == "":
		return ""
	}
	return visible(line) + ": " + visibleLines(said) + "\n"
}

func (s *speech) flush() {
	if s.print(strings.Join(s.waiting, "")); len(s.waiting) > 0 {
		s.last = ""
	}
	s.waiting = nil
}

// close ends what is shown, and says whether a text was the last of it.
func (s *speech) close(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.speaker != "" {
		s.speaker = ""
		s.print("\n")
	}
	s.flush()
	return s.last != "" && s.last == text
}
