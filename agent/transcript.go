package agent

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"aether/sandbox"
	"aether/tool"
)

// Kind is what an Entry tells of.
type Kind string

const (
	Began      Kind = "began"       // the run
	Opened     Kind = "opened"      // its sandbox
	Replied    Kind = "replied"     // the model's turn
	Called     Kind = "called"      // a call, with its answer
	Forked     Kind = "forked"      // a line, into Lines
	Scored     Kind = "scored"      // a line
	Kept       Kind = "kept"        // the line, of those that were forked
	Dropped    Kind = "dropped"     // the line, and why
	RolledBack Kind = "rolled_back" // the sandbox of the line, to Mark
	Ended      Kind = "ended"       // the run
)

// Entry is one line of a transcript.
type Entry struct {
	Time time.Time `json:"time"`
	Kind Kind      `json:"kind"`
	Line string    `json:"line"`
	Step int       `json:"step,omitempty"`
	// TookMS is how long it took, where that is known.
	TookMS float64 `json:"took_ms,omitempty"`

	Run    *Start          `json:"run,omitempty"`
	Reply  *Reply          `json:"reply,omitempty"`
	Call   *tool.Request   `json:"call,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Failed bool            `json:"failed,omitempty"`
	Mark   string          `json:"mark,omitempty"`
	// Lines and Sandboxes are what a line was forked into, or what was opened.
	Lines     []string `json:"lines,omitempty"`
	Sandboxes []string `json:"sandboxes,omitempty"`
	Score     *Score   `json:"score,omitempty"`
	Why       string   `json:"why,omitempty"`
	Outcome   *Outcome `json:"outcome,omitempty"`
}

// Start is what a run began with.
type Start struct {
	Version int         `json:"version"`
	Model   string      `json:"model,omitempty"`
	Format  tool.Format `json:"format"`
	Task    string      `json:"task"`
	Branch  Branch      `json:"branch,omitzero"`
}

// transcriptVersion is raised when old readers would misread.
const transcriptVersion = 1

// hiddenValue stands where a secret was.
const hiddenValue = "[secret]"

// minSecret is the length from which on a secret is looked for: what is shorter is in
// everything.
const minSecret = 6

// transcript writes entries, of many lines at once. Its first failure is remembered.
type transcript struct {
	mu     sync.Mutex
	to     io.Writer
	hidden *strings.Replacer
	watch  func(Entry)
	err    error
}

func newTranscript(to io.Writer, secrets []string, watch func(Entry)) *transcript {
	if watch == nil {
		watch = func(Entry) {}
	}
	return &transcript{to: to, hidden: hiding(secrets), watch: watch}
}

// hiding replaces secrets in JSON: as they are, and as they are written in a string, in a
// string within a string, and so on, by writers that do and do not escape what HTML has for
// itself. The longest come first, in case one is in another.
func hiding(secrets []string) *strings.Replacer {
	forms := map[string]bool{}
	for _, secret := range secrets {
		if len(secret) < minSecret {
			continue
		}
		level := []string{secret}
		for range 4 {
			var next []string
			for _, form := range level {
				forms[form] = true
				next = append(next, quoted(form, true), quoted(form, false))
			}
			level = slices.Compact(next)
		}
	}
	var pairs []string
	for _, form := range slices.SortedFunc(maps.Keys(forms), func(a, b string) int { return len(b) - len(a) }) {
		pairs = append(pairs, form, hiddenValue)
	}
	return strings.NewReplacer(pairs...)
}

// quoted is the inside of a JSON string.
func quoted(text string, escapeHTML bool) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(escapeHTML)
	if err := enc.Encode(text); err != nil {
		panic(err) // a string has JSON
	}
	inside := strings.TrimSpace(b.String())
	return inside[1 : len(inside)-1]
}

func (t *transcript) write(e Entry) {
	e.Time = time.Now().Round(0)
	text, err := json.Marshal(e)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watch(e)
	if err == nil && t.err == nil {
		_, err = io.WriteString(t.to, t.hidden.Replace(string(text))+"\n")
	}
	if t.err == nil && err != nil {
		t.err = fmt.Errorf("agent: the transcript cannot be written: %w", err)
	}
}

func (t *transcript) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// maxEntry bounds a line of a transcript, and maxEntries their number.
const (
	maxEntry   = 64 << 20
	maxEntries = 1 << 20
)

// Read reads a transcript. One whose run was killed may end within a line, which is left
// out. Errors: Invalid for what is none.
func Read(from io.Reader) (list []Entry, err error) {
	lines := bufio.NewReaderSize(io.LimitReader(from, 4<<30), 64<<10)
	for len(list) < maxEntries {
		text, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return list, checkStart(list)
		}
		if err != nil {
			return nil, err
		}
		var e Entry
		if len(text) > maxEntry {
			return nil, sandbox.Invalidf("transcript", "line %d is too long", len(list)+1)
		}
		if err := json.Unmarshal(text, &e); err != nil {
			return nil, sandbox.Invalidf("transcript", "line %d is no entry: %.200s", len(list)+1, err)
		}
		if list = append(list, e); len(list) == 1 {
			if err := checkStart(list); err != nil {
				return nil, err
			}
		}
	}
	return nil, sandbox.Invalidf("transcript", "it has too many lines")
}

func checkStart(list []Entry) error {
	if len(list) == 0 || list[0].Kind != Began || list[0].Run == nil || list[0].Run.Version != transcriptVersion {
		return sandbox.Invalidf("transcript", "it does not begin as one of version %d does", transcriptVersion)
	}
	return nil
}
