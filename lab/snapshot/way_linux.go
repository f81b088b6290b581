package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"aether/guest"
	"aether/lab"
	"aether/lab/conversation"
	"aether/lab/run"
	"aether/sandbox"
)

// facts are what may be kept.
var facts = []string{run.Files, run.LiveMemory, run.Descriptors, run.Sockets, run.Connections}

// shownTogether are those of one program, without connections.
var shownTogether = facts[:4]

// way is one by which a sandbox is copied.
type way struct {
	name, still string
	absent      string
	fidelity    sandbox.Fidelity
	// make makes copies of a source.
	make func(ctx context.Context, s *source, n int) (*made, error)
}

// files says that nothing else is copied.
func (w way) files() bool { return w.fidelity == sandbox.Filesystem }

func (m *measurement) ways() []way {
	info := m.system.Driver.Info()
	fork := way{name: run.Fork, still: run.StillFork, make: fork, fidelity: info.Verbs.Fork}
	if info.Verbs.Fork == "" {
		fork.absent = info.Name + " cannot fork a running sandbox"
	}
	restore := way{name: run.Restore, still: run.StillSnapshot, make: restore, fidelity: info.Verbs.Restore}
	if _, ok := m.system.Driver.(sandbox.Restorer); !ok {
		restore.absent = info.Name + " restores nothing"
	}
	return []way{fork, restore}
}

// made are copies of a source.
type made struct {
	copies []sandbox.Instance
	memory bool // that of processes was to be kept
	began  time.Time
	took   time.Duration // until all were there
	// still is how long the source stood still, and snapshot how long it took to keep it.
	still, snapshot time.Duration
	dir             string
}

func fork(ctx context.Context, s *source, n int) (_ *made, err error) {
	forker, ok := s.instance.(sandbox.Forker)
	if !ok {
		return nil, errors.New("the sandbox cannot be forked on this host")
	}
	m := &made{memory: forker.ForkFidelity() != sandbox.Filesystem}
	m.still, err = s.watched(ctx, func() (err error) {
		m.began = time.Now()
		m.copies, err = forker.Fork(ctx, make([]sandbox.Spec, n))
		m.took = time.Since(m.began)
		return err
	})
	if reporter, ok := s.instance.(sandbox.ForkReporter); ok && err == nil && reporter.LastForkPause() > 0 {
		m.still = reporter.LastForkPause()
	}
	if err != nil {
		return nil, errors.Join(err, m.end())
	}
	return m, nil
}

// restore keeps the source once and makes copies of that.
func restore(ctx context.Context, s *source, n int) (_ *made, err error) {
	restorer := s.driver.(sandbox.Restorer)
	keep := restorer.RestoreFidelity()
	m := &made{memory: keep != sandbox.Filesystem}
	if m.dir, err = s.newDir(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.end())
		}
	}()
	m.still, err = s.watched(ctx, func() error {
		start := time.Now()
		err := s.instance.(sandbox.Snapshotter).Snapshot(ctx, m.dir, keep)
		m.snapshot = time.Since(start)
		return err
	})
	if err != nil {
		return nil, err
	}
	m.began = time.Now()
	for range n {
		one, err := restorer.Restore(ctx, m.dir, keep, sandbox.Spec{})
		if err != nil {
			return nil, err
		}
		m.copies = append(m.copies, one)
	}
	m.took = time.Since(m.began)
	return m, nil
}

// held is what the processes of the copies hold alone, in KiB, and how many those are.
func (m *made) held(before lab.Processes) (processes int, kib int64, err error) {
	var ids []string
	for _, one := range m.copies {
		ids = append(ids, one.ID())
	}
	all, err := lab.ReadProcesses()
	if err != nil {
		return 0, 0, err
	}
	ours, err := all.Of(ids, before)
	if err != nil {
		return 0, 0, err
	}
	kib, err = ours.Private()
	return len(ours), kib, err
}

func (m *made) end() (err error) {
	for _, one := range m.copies {
		err = errors.Join(err, one.Destroy(context.Background()))
	}
	if m.dir != "" {
		err = errors.Join(err, os.RemoveAll(m.dir))
	}
	return err
}

// copied is a copy that answers.
type copied struct {
	instance sandbox.Instance
	program  *conversation.Conversation // nil where only files are kept
	memory   bool
	file     string // what the file has, where only files are kept
}

// first has the last copy answer, and gives how long that took since it was asked for:
// the program in it or, where files alone are kept, the guest service with a file.
func (m *made) first(ctx context.Context, s *source) (c *copied, answered time.Duration, err error) {
	c = &copied{instance: m.copies[len(m.copies)-1], memory: m.memory}
	if !m.memory {
		c.file, err = readFile(ctx, c.instance)
		return c, time.Since(m.began), err
	}
	if c.program, err = conversation.Connect(ctx, c.instance, s.program.Pid()); err != nil {
		return nil, 0, fmt.Errorf("the program in the copy: %w", err)
	}
	answer, err := c.program.Ask(ctx, ping)
	answered = time.Since(m.began)
	for err == nil && answer != pong { // what the source was about to say when it was copied
		answer, err = c.program.Line(ctx)
	}
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("the program in the copy: %w", err), c.close())
	}
	return c, answered, nil
}

func (c *copied) close() error {
	if c.program == nil {
		return nil
	}
	return c.program.Close()
}

// plainFile is one that the program has written and closed.
const plainFile = "/tmp/aether-lab-file"

func readFile(ctx context.Context, in sandbox.Instance) (string, error) {
	client := guest.ClientFor(in, guest.ClientOptions{})
	defer client.Close()
	file, err := client.Read(ctx, plainFile)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, 100))
	return string(text), err
}

// shown is what came out for a fact.
type shown struct {
	holds bool
	proof string
}

// kept shows what the copy has of the source.
func (c *copied) kept(ctx context.Context, s *source) iter.Seq2[string, shown] {
	return func(yield func(string, shown) bool) {
		file, err := readFile(ctx, c.instance)
		list := map[string]shown{run.Files: {err == nil && file == s.word, fmt.Sprintf("the copy's %s has %q, the source wrote %q, error: %v", plainFile, file, s.word, err)}}
		for _, fact := range shownTogether[1:] {
			list[fact] = shown{false, fmt.Sprintf("only files are copied: there is no process %d", s.program.Pid())}
		}
		if c.program != nil {
			c.ask(ctx, s, list)
		}
		if s.refused != nil {
			list[run.Sockets] = shown{false, "a sandbox with sockets is not copied: " + s.refused.Error()}
		}
		for _, fact := range shownTogether {
			if !yield(fact, list[fact]) {
				return
			}
		}
	}
}

// ask has the program in the copy say what it has, twice: it goes on counting from where
// its source was.
func (c *copied) ask(ctx context.Context, s *source, list map[string]shown) {
	first, err := c.look(ctx, s.word)
	var second state
	if err == nil {
		time.Sleep(20 * time.Millisecond)
		second, err = c.look(ctx, s.word)
	}
	if err != nil {
		for _, fact := range shownTogether[1:] {
			list[fact] = shown{false, "the program in the copy does not answer: " + err.Error()}
		}
		return
	}
	counts := first.Count >= s.pinged && second.Count > first.Count
	list[run.LiveMemory] = shown{counts && second.Memory == true && second.Word == s.word,
		fmt.Sprintf("the source had counted to %d; the copy to %d, then %d; all of %d MiB as they were: %v", s.pinged, first.Count, second.Count, s.mib, second.Memory)}
	list[run.Descriptors] = shown{second.File == s.word, fmt.Sprintf("read from its open file behind the third byte: %.80q, want %q", second.File, s.word)}
	list[run.Sockets] = shown{second.Pair == s.word && second.Listener == s.word,
		fmt.Sprintf("through a pair of sockets came %.80q, through one that listens %.80q, want %q", second.Pair, second.Listener, s.word)}
}

// look asks for the state, past what the source was about to say.
func (c *copied) look(ctx context.Context, word string) (state, error) {
	answer, err := c.program.Ask(ctx, word)
	for err == nil && answer == pong {
		answer, err = c.program.Line(ctx)
	}
	if err != nil {
		return state{}, err
	}
	return parseState(answer, word)
}
