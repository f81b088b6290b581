package engine

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"aether/engine/access"
	"aether/sandbox"
)

// Engine holds sandboxes of tenants, if it has a state directory, templates by name,
// pools by tenant and the fork tree of them all. It may be used by many at once.
type Engine struct {
	log      *slog.Logger
	fleet    *fleet // nil without a state directory
	tree     tree
	making   making
	life     context.Context // ends with Close
	end      context.CancelFunc
	watching sync.WaitGroup // over the ends of sandboxes
	calls    sync.WaitGroup // that make sandboxes

	mu        sync.Mutex
	closed    bool
	templates map[string]*Template // nil while one is prepared
	children  map[*Child]bool
	pools     map[poolKey]*Pool
}

type poolKey struct{ tenant, template string }

// Options are how an engine works. The zero value works.
type Options struct {
	// Logger is told what fails in the background, where no caller waits for an
	// answer: the filling of a pool, the end of a sandbox whose time is over. Nil
	// means slog.Default().
	Logger *slog.Logger
	// State is the directory in which Open remembers, and Drivers are what it makes
	// sandboxes with, best first. New has no use for them.
	State   string
	Drivers []sandbox.Maker
	// Access is what tenants may ask for and have. See Engine.SetAccess.
	Access access.Config

	// beforeWrite, in tests, is called before every change of the state directory.
	beforeWrite func() error
}

// New makes an engine without anything in it that remembers nothing: it has templates,
// pools and their children. See Open for one that holds sandboxes.
func New(opts Options) *Engine {
	e := &Engine{log: cmp.Or(opts.Logger, slog.Default()), templates: map[string]*Template{}, children: map[*Child]bool{}, pools: map[poolKey]*Pool{}}
	e.life, e.end = context.WithCancel(context.Background())
	return e
}

// enter lets a call make sandboxes; Close ends its context and waits for it.
func (e *Engine) enter(ctx context.Context) (_ context.Context, release func(), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, nil, errClosed
	}
	e.calls.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(e.life, func() { cancel(errClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
		e.calls.Done()
	}, nil
}

// Prepare makes a template. notify, unless it is nil, is told of each step.
//
// Errors: Invalid for the recipe; Conflict if the name is taken, or a command or
// the code fails; Unsupported if the driver cannot fork; Timeout; and those of
// the driver.
func (e *Engine) Prepare(ctx context.Context, driver sandbox.Driver, recipe Recipe, notify func(step string)) (*Template, error) {
	if err := recipe.Validate(); err != nil {
		return nil, err
	}
	ctx, release, err := e.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := e.reserve(recipe.Name); err != nil {
		return nil, err
	}
	t, err := e.prepare(ctx, driver, recipe, nil, noArchives, notify)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		delete(e.templates, recipe.Name)
		return nil, err
	}
	e.plant(t)
	return t, nil
}

func (e *Engine) reserve(name string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, taken := e.templates[name]; taken {
		return &sandbox.Error{Class: sandbox.Conflict, Op: "engine: prepare " + name, Reason: "there is a template of this name", Remedy: "remove it"}
	}
	e.templates[name] = nil
	return nil
}

// plant makes a prepared template the one of its name. e.mu is held.
func (e *Engine) plant(t *Template) {
	e.tree.add(Node{ID: t.ID(), Template: t.recipe.Name, Born: t.prepared, Took: t.took})
	e.templates[t.recipe.Name] = t
	t.watch(func() {})
}

// Template finds a template. Errors: NotFound.
func (e *Engine) Template(name string) (*Template, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.find(name)
}

// find is Template with e.mu held.
func (e *Engine) find(name string) (*Template, error) {
	if t := e.templates[name]; t != nil {
		return t, nil
	}
	return nil, &sandbox.Error{Class: sandbox.NotFound, Op: "engine", Reason: "there is no template " + name, Remedy: "prepare it"}
}

// Templates lists them by name.
func (e *Engine) Templates() []*Template {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []*Template
	for _, t := range e.templates {
		if t != nil {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b *Template) int { return cmp.Compare(a.recipe.Name, b.recipe.Name) })
	return list
}

// Remove closes the pools of a template and ends it. Children that were handed
// out live on.
func (e *Engine) Remove(ctx context.Context, name string) error {
	e.mu.Lock()
	t, err := e.find(name)
	if err == nil {
		delete(e.templates, name)
	}
	e.mu.Unlock()
	if err != nil {
		return err
	}
	for _, p := range e.poolsOf(name) {
		err = errors.Join(err, p.Close(ctx))
	}
	return errors.Join(err, t.close(ctx))
}

// Tree lists every sandbox that lives, and the last of those that have ended,
// oldest first.
func (e *Engine) Tree() []Node { return e.tree.list() }

// Close ends everything and waits until it is gone, but for the sandboxes that were
// made to outlive the engine: those are paused, and the next one resumes them. It is
// idempotent, and nothing can be made afterwards.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.end()
	var errs []error
	for _, p := range e.allPools() {
		errs = append(errs, p.Close(ctx))
	}
	e.calls.Wait()
	if e.fleet != nil {
		errs = append(errs, e.fleet.stop(ctx), e.fleet.catalogue.stop(ctx))
	}
	for _, c := range e.living() {
		errs = append(errs, c.Destroy(ctx))
	}
	for _, t := range e.Templates() {
		errs = append(errs, t.close(ctx))
	}
	err := errors.Join(errs...)
	if err == nil {
		e.watching.Wait()
	}
	if e.fleet != nil {
		err = errors.Join(err, e.fleet.shut(ctx))
	}
	return err
}

func (e *Engine) living() []*Child {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []*Child
	for c := range e.children {
		list = append(list, c)
	}
	return list
}
