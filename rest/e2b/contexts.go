package e2b

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"aether/engine"
	"aether/interpreter"
	"aether/sandbox"
)

const (
	maxContexts = 64 // of one sandbox
	maxBooks    = 10_000
	codeDir     = "/home/user"
)

// languages are those that clients name.
var languages = map[string]interpreter.Language{
	"": interpreter.Python, "python": interpreter.Python, "python3": interpreter.Python,
	"javascript": interpreter.Node, "js": interpreter.Node, "node": interpreter.Node, "typescript": interpreter.TypeScript, "ts": interpreter.TypeScript,
	"bash": interpreter.Bash,
}

// wireNames are what clients call the languages.
var wireNames = map[interpreter.Language]string{interpreter.Python: "python", interpreter.Node: "javascript", interpreter.TypeScript: "typescript",
	interpreter.Bash: "bash"}

func languageOf(name string) (interpreter.Language, error) {
	if language, ok := languages[strings.ToLower(name)]; ok {
		return language, nil
	}
	e := sandbox.Invalidf("language", "%.40q has no interpreter here", name)
	e.Remedy = "use one of python, javascript, typescript, bash"
	return "", e
}

// books are the code contexts of all sandboxes, by their ids; those of snapshots are what
// the sandboxes have that are made of them.
type books struct {
	engine Engine
	mu     sync.Mutex
	by     map[string]*book
}

// book is the code contexts of one sandbox.
type book struct {
	mu       sync.Mutex
	contexts map[string]*codeContext
}

// codeContext is an interpreter that stays, or one that is started when it is first used.
type codeContext struct {
	ID       string `json:"id"`
	Language string `json:"language"`
	CWD      string `json:"cwd"`

	kind     interpreter.Language
	standard bool                                // that of its language, which is there unasked
	handle   atomic.Pointer[interpreter.Handle]  // nil if it was never started
	busy     atomic.Pointer[interpreter.Context] // while code is run
	turn     chan struct{}                       // held by who runs code in it; what follows is theirs
	copied   bool                                // it is another sandbox's until it is woken
	instance int                                 // of the sandbox, in which it runs
	running  *interpreter.Context
	release  func()
}

func newBooks(e Engine) *books { return &books{engine: e, by: map[string]*book{}} }

// of gives the book of a sandbox. Those of sandboxes that are gone make room.
func (b *books) of(id string) *book {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.by[id] == nil {
		if len(b.by) >= maxBooks {
			b.sweep()
		}
		b.by[id] = &book{contexts: map[string]*codeContext{}}
	}
	return b.by[id]
}

// sweep forgets what is gone. Who calls it has b.mu.
func (b *books) sweep() {
	for id := range b.by {
		s, err := b.engine.Get(context.Background(), operator, id)
		_, none := b.engine.GetSnapshot(context.Background(), operator, id)
		if (err != nil || s.State == engine.Ended) && none != nil {
			delete(b.by, id)
		}
	}
}

// copy has a sandbox or snapshot have the contexts of another, as they are now.
func (b *books) copy(from, to string) {
	b.mu.Lock()
	source := b.by[from]
	b.mu.Unlock()
	if source == nil {
		return
	}
	source.mu.Lock()
	list := slices.Collect(maps.Values(source.contexts))
	source.mu.Unlock()
	target := b.of(to)
	target.mu.Lock()
	defer target.mu.Unlock()
	for _, c := range list {
		other, handle := newContext(c.ID, c.kind, c.CWD), c.handle.Load()
		other.standard, other.copied = c.standard, handle != nil
		other.handle.Store(handle)
		target.contexts[c.ID] = other
	}
}

func (b *books) forget(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.by, id)
}

func newContext(id string, kind interpreter.Language, cwd string) *codeContext {
	return &codeContext{ID: id, Language: wireNames[kind], CWD: cwd, kind: kind, turn: make(chan struct{}, 1)}
}

// add makes a context. Errors: Exhausted.
func (k *book) add(id string, kind interpreter.Language, cwd string) (*codeContext, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.contexts) >= maxContexts {
		return nil, &sandbox.Error{Class: sandbox.Exhausted, Reason: "the sandbox has as many code contexts as it may"}
	}
	c := newContext(id, kind, cwd)
	k.contexts[id] = c
	return c, nil
}

// find gives a context by its id. Errors: NotFound.
func (k *book) find(id string) (*codeContext, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.contexts[id]; c != nil {
		return c, nil
	}
	return nil, &sandbox.Error{Class: sandbox.NotFound, Field: "path", Reason: "there is no such code context"}
}

// standard gives the context of a language that is there unasked.
func (k *book) standard(kind interpreter.Language) *codeContext {
	k.mu.Lock()
	defer k.mu.Unlock()
	id := "default-" + wireNames[kind]
	c := k.contexts[id]
	if c == nil {
		c = newContext(id, kind, codeDir)
		c.standard = true
		k.contexts[id] = c
	}
	return c
}

// take waits until the caller alone may use a context.
func (c *codeContext) take(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &sandbox.Error{Class: sandbox.ClassOf(ctx.Err()), Reason: "another call is under way", Err: ctx.Err()}
	}
}

func (c *codeContext) give() { <-c.turn }

// live connects to the interpreter, which is started if it never was, or is gone from a
// context that is there unasked. Who calls it has the turn. That of an instance which was
// paused or rolled back is let go of, for its end may not have been noticed yet.
func (c *codeContext) live(ctx context.Context, e Engine, who engine.Caller, s engine.Sandbox) (*interpreter.Context, error) {
	if c.running != nil && c.instance == s.Instance {
		select {
		case <-c.running.Done():
		default:
			return c.running, nil
		}
	}
	c.letGo()
	client, release, err := e.Guest(ctx, who, s.ID)
	if err != nil {
		return nil, err
	}
	running, err := c.connect(ctx, client, envOf(s.Spec))
	if err != nil {
		release()
		return nil, err
	}
	handle := running.Handle()
	c.running, c.release, c.copied, c.instance = running, release, false, s.Instance
	c.handle.Store(&handle)
	return running, nil
}

// letGo forgets an interpreter that has ended, or is not to be followed any more.
func (c *codeContext) letGo() {
	if c.running != nil {
		c.running.Detach()
	}
	if c.release != nil {
		c.release()
	}
	c.running, c.release = nil, nil
}

// end ends the interpreter. Who calls it has the turn.
func (c *codeContext) end(ctx context.Context, e Engine, who engine.Caller, s engine.Sandbox) error {
	if c.handle.Load() == nil {
		return nil
	}
	running, err := c.live(ctx, e, who, s)
	if sandbox.ClassOf(err) == sandbox.NotFound {
		c.handle.Store(nil)
		return nil
	}
	if err != nil {
		return err
	}
	err = running.Close(ctx)
	c.letGo()
	c.handle.Store(nil)
	var gone *interpreter.Ended
	if errors.As(err, &gone) {
		return nil
	}
	return err
}
