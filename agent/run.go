package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"aether/sandbox"
	"aether/tool"
)

// Options are what a run is made of.
type Options struct {
	// Session calls the tools. It is of the full profile.
	Session *tool.Session
	Model   Model
	// ModelName is what the transcript calls it.
	ModelName string
	Task      string
	Sandbox   Sandbox
	Policy    Policy
	Budget    Budget
	Branch    Branch
	// Checkpoint has the sandbox be marked before each call, and the model undo calls.
	Checkpoint bool
	// Transcript is written everything. Nil is none.
	Transcript io.Writer
	// Watch is told of each entry as it happens, one at a time. It may hold secrets.
	Watch func(Entry)
	// Hear is told what the model says in a line as it comes, of many lines at once.
	Hear func(line, text string)
	// Secrets are values that must not be in the transcript.
	Secrets []string
}

// Sandbox is what the sandbox of a run is made of.
type Sandbox struct {
	// From is a sandbox of which it is a fork; else it is made of Image or Template, if
	// they are not empty, by Driver.
	From, Image, Template, Driver string
	// Allow is what it may reach; nothing, if it is empty.
	Allow []string
	// Setup is a shell command that is run in it first.
	Setup string
	// Keep has the sandbox of the line that is kept outlive the run.
	Keep bool
}

// Budget bounds a run. Zero is the default of each.
type Budget struct {
	// Steps bounds the turns of the model in a line with those that it comes from: 50.
	Steps int
	// Tokens bounds what the model reads and writes in all lines together: no bound. A turn
	// that has begun is not cut.
	Tokens int
	// Time bounds the whole run: an hour.
	Time time.Duration
}

// Branch says when a run is forked, and how it is chosen which fork is kept.
type Branch struct {
	// Count is how many forks there are; less than 2 is none.
	Count int `json:"count,omitempty"`
	// At are the steps before which lines are forked; the first, if it is empty.
	At []int `json:"at,omitempty"`
	// Steps is how far forks go until they are scored; to their ends, if it is 0.
	Steps int `json:"steps,omitempty"`
	// Score is a shell command that is run in the sandbox of each.
	Score string `json:"score,omitempty"`
}

const (
	defaultSteps = 50
	defaultTime  = time.Hour
	maxTime      = 30 * 24 * time.Hour
	maxBranch    = 64
	maxTask      = 1 << 20
	mainLine     = "main"
)

// Why a run ended.
const (
	Finished  = "finished" // the model called no more tools
	NoSteps   = "steps"    // the budget of steps was used up
	NoTokens  = "tokens"
	NoTime    = "time"
	Cancelled = "cancelled"
	Failed    = "failed"
)

// Outcome is how a run ended.
type Outcome struct {
	Why string `json:"why"`
	// Line is the one that was kept, and Sandbox its own.
	Line    string `json:"line"`
	Sandbox string `json:"sandbox,omitempty"`
	Answer  string `json:"answer,omitempty"`
	Steps   int    `json:"steps"`
	Tokens  Tokens `json:"tokens"`
	Score   *Score `json:"score,omitempty"`
	Error   string `json:"error,omitempty"`
}

// OK says that the model finished, and that what was to be scored passed.
func (o Outcome) OK() bool { return o.Why == Finished && (o.Score == nil || o.Score.Passed) }

// run is one at work.
type run struct {
	Options
	session *tool.Session
	script  *transcript
	judge   *judge
	tools   json.RawMessage

	mu     sync.Mutex
	tokens Tokens
	made   []string // sandboxes that have not ended
}

// Run has a model work on a task in a sandbox of its own. The outcome says how that ended,
// also if there is an error. Errors: Invalid for the Options; those of the model and the
// engine.
func Run(ctx context.Context, opts Options) (Outcome, error) {
	r, err := newRun(opts)
	if err != nil {
		return Outcome{Why: Failed, Error: err.Error()}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.Budget.Time, errNoTime)
	defer cancel()
	out, err := r.work(ctx)
	err = errors.Join(err, r.clean(ctx, out))
	if out.Tokens = r.tokens; !r.Sandbox.Keep {
		out.Sandbox = ""
	}
	if err != nil {
		out.Error = err.Error()
	}
	r.script.write(Entry{Kind: Ended, Line: out.Line, Outcome: &out})
	return out, errors.Join(err, r.script.failure())
}

var errNoTime = &sandbox.Error{Class: sandbox.Timeout, Reason: "the run's time is over"}

func newRun(opts Options) (*run, error) {
	if opts.Session == nil || opts.Model == nil {
		return nil, sandbox.Invalidf("model", "a run needs a session and a model")
	}
	if opts.Task == "" || len(opts.Task) > maxTask {
		return nil, sandbox.Invalidf("task", "it is empty, or has more than 1 MiB")
	}
	if s := opts.Sandbox; s.From != "" && (s.Image != "" || s.Template != "" || s.Driver != "" || len(s.Allow) > 0) {
		return nil, sandbox.Invalidf("from", "a fork has the image, driver and network of its source")
	}
	if err := opts.Branch.check(); err != nil {
		return nil, err
	}
	if opts.Budget.Steps < 0 || opts.Budget.Tokens < 0 || opts.Budget.Time < 0 || opts.Budget.Time > maxTime {
		return nil, sandbox.Invalidf("budget", "it is negative, or more than 30 days")
	}
	opts.Budget.Steps, opts.Budget.Time = cmp.Or(opts.Budget.Steps, defaultSteps), cmp.Or(opts.Budget.Time, defaultTime)
	j, err := newJudge(opts.Policy, opts.Session.Tools())
	if err != nil {
		return nil, err
	}
	r := &run{Options: opts, session: opts.Session, judge: j}
	if r.tools, err = project(opts.Model.Format(), j.tools, opts.Checkpoint); err != nil {
		return nil, err
	}
	to := opts.Transcript
	if to == nil {
		to = io.Discard
	}
	r.script = newTranscript(to, opts.Secrets, opts.Watch)
	return r, nil
}

// system is what a model is told of where it is.
func (r *run) system() string {
	text := `You work on a task in a Linux sandbox, by tools. The sandbox argument of every call is "` + here + `". Nobody answers questions: decide yourself. When the task is done, say so in a few sentences and call no tool.`
	if r.Checkpoint {
		text += " A call that made things worse can be undone by " + undoTool + ", with everything that it did to files and processes."
	}
	return text
}

func (r *run) work(ctx context.Context) (Outcome, error) {
	r.script.write(Entry{Kind: Began, Line: mainLine, Run: &Start{transcriptVersion, r.ModelName, r.Model.Format(), r.Task, r.Branch}})
	began := time.Now()
	id, err := r.open(ctx)
	if err != nil {
		return Outcome{Why: whyOf(ctx, err), Line: mainLine}, err
	}
	r.script.write(Entry{Kind: Opened, Line: mainLine, TookMS: since(began), Sandboxes: []string{id}})
	if err := r.setup(ctx, id); err != nil {
		return Outcome{Why: whyOf(ctx, err), Line: mainLine, Sandbox: id}, err
	}
	l := &line{run: r, name: mainLine, sandbox: id, messages: say(r.Model.Format(), nil, r.Task)}
	l, err = r.follow(ctx, l)
	out := Outcome{Why: l.why, Line: l.name, Sandbox: l.sandbox, Answer: l.answer, Steps: l.step, Score: l.score}
	if err != nil {
		out.Why = whyOf(ctx, err)
		return out, err
	}
	if r.Branch.Score != "" && l.score == nil {
		out.Score, err = l.rate(ctx)
	}
	return out, err
}

// follow has a line go on to its end, through its forks, and gives the one that is left.
func (r *run) follow(ctx context.Context, l *line) (*line, error) {
	for l.why == "" {
		if r.Branch.at(l.step+1) && l.forkedAt != l.step+1 {
			kept, err := l.branch(ctx)
			if kept != nil {
				l = kept
			}
			if err != nil {
				return l, err
			}
			continue
		}
		if err := l.next(ctx); err != nil {
			return l, err
		}
	}
	return l, nil
}

func whyOf(ctx context.Context, err error) string {
	switch {
	case err == nil:
		return Finished
	case errors.Is(context.Cause(ctx), errNoTime):
		return NoTime
	case ctx.Err() != nil:
		return Cancelled
	}
	return Failed
}

// do calls a tool in the run's own name.
func do[Out any](ctx context.Context, r *run, name string, arguments map[string]any) (out Out, err error) {
	result := r.session.Do(ctx, name, encode(arguments))
	if f := result.Failure; f != nil {
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		return out, failed(name, f)
	}
	return result.Value.(Out), nil
}

// failed is a failure of a tool as an error of its class.
func failed(name string, f *tool.Failure) error {
	class := sandbox.Internal
	for _, c := range []sandbox.Class{sandbox.Invalid, sandbox.NotFound, sandbox.Conflict, sandbox.Unsupported, sandbox.Unavailable, sandbox.Exhausted, sandbox.Denied, sandbox.Timeout} {
		if c.String() == f.Class {
			class = c
		}
	}
	return &sandbox.Error{Class: class, Op: "agent: " + name, Field: f.Field, Reason: f.Reason, Remedy: f.Remedy}
}

// open makes the sandbox of a run.
func (r *run) open(ctx context.Context) (string, error) {
	s := r.Sandbox
	if s.From != "" {
		made, err := do[tool.Sandboxes](ctx, r, "sandbox_fork", r.lasting(map[string]any{"sandbox": s.From, "count": 1}))
		if err != nil {
			return "", err
		}
		r.own(made.Sandboxes...)
		return made.Sandboxes[0].ID, nil
	}
	arguments := r.lasting(map[string]any{})
	for name, value := range map[string]string{"image": s.Image, "template": s.Template, "driver": s.Driver} {
		if value != "" {
			arguments[name] = value
		}
	}
	if len(s.Allow) > 0 {
		arguments["allow"] = s.Allow
	}
	made, err := do[tool.Sandbox](ctx, r, "sandbox_create", arguments)
	if err != nil {
		return "", err
	}
	r.own(made)
	return made.ID, nil
}

func (r *run) setup(ctx context.Context, id string) error {
	if r.Sandbox.Setup == "" {
		return nil
	}
	ran, err := do[tool.Ran](ctx, r, "command_run", map[string]any{"sandbox": id, "command": r.Sandbox.Setup, "timeout_s": commandSeconds})
	if err == nil && (ran.ExitCode == nil || *ran.ExitCode != 0) {
		err = &sandbox.Error{Class: sandbox.Conflict, Field: "setup", Reason: fmt.Sprintf("the command failed: %s", clip(ran.Stderr.Text, 300))}
	}
	return err
}

// lasting has what a call makes outlive the session, if its best is to be kept. Until that
// is known it has an end, in case this program has one before.
func (r *run) lasting(arguments map[string]any) map[string]any {
	if r.Sandbox.Keep {
		arguments["keep"], arguments["timeout_s"] = true, int(r.Budget.Time.Seconds())+commandSeconds
	}
	return arguments
}

func (r *run) own(made ...tool.Sandbox) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range made {
		r.made = append(r.made, one.ID)
	}
}

// end ends the sandbox of a line that is not needed any more.
func (r *run) end(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	_, err := do[tool.Done](ctx, r, "sandbox_destroy", map[string]any{"sandbox": id})
	if sandbox.ClassOf(err) == sandbox.NotFound {
		err = nil
	}
	if err == nil {
		r.mu.Lock()
		r.made = slices.DeleteFunc(r.made, func(other string) bool { return other == id })
		r.mu.Unlock()
	}
	return err
}

// clean ends all sandboxes but that of the outcome, if it is to be kept.
func (r *run) clean(ctx context.Context, out Outcome) error {
	r.mu.Lock()
	left := slices.Clone(r.made)
	r.mu.Unlock()
	var errs []error
	for _, id := range left {
		if r.Sandbox.Keep && id == out.Sandbox {
			errs = append(errs, r.keep(ctx, id))
		} else {
			errs = append(errs, r.end(ctx, id))
		}
	}
	return errors.Join(errs...)
}

// keep has a sandbox live on without an end.
func (r *run) keep(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	_, err := do[tool.Sandbox](ctx, r, "sandbox_timeout", map[string]any{"sandbox": id, "timeout_s": 0})
	return err
}

// spend counts tokens.
func (r *run) spend(t Tokens) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tokens = r.tokens.plus(t)
}

func (r *run) spent() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tokens.sum()
}
