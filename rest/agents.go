package rest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"syscall"
	"time"

	"aether/engine"
	"aether/guest"
	"aether/sandbox"
	"aether/tool"
)

// maxMCP bounds a message of an agent's, which may carry a file.
const maxMCP = 8<<20 + 64<<10

// Agents answers the messages of agents, at /mcp. The engine is the one of the door, with
// its bounds.
type Agents interface {
	ServeMCP(w http.ResponseWriter, r *http.Request, who engine.Caller, e Engine)
}

var agentRoutes = []route{
	{method: "POST", path: "/mcp", name: "mcp", told: true, stream: (*Server).mcp},
}

// mcp hands a message to those who know what agents can do. It is here, and no door of
// its own, so that the same keys and bounds hold.
func (s *Server) mcp(a *answer, r *request) error {
	if s.opts.Agents == nil {
		return &sandbox.Error{Class: sandbox.Unsupported, Reason: "this daemon does not speak with agents"}
	}
	text, err := s.receive(a, r, maxMCP)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(text))
	s.opts.Agents.ServeMCP(&patient{sending{a, http.NewResponseController(a), s.opts.Limits.Stall}}, r.Request, r.who, &boundedEngine{s.opts.Engine, s})
	return nil
}

// patient gives its reader time for each part that is written.
type patient struct{ sending }

// Write implements http.ResponseWriter.
func (p *patient) Write(part []byte) (int, error) {
	if err := p.wait(); err != nil {
		return 0, err
	}
	return p.answer.Write(part)
}

// boundedEngine is the engine as the door has it: creations at once are bounded together.
type boundedEngine struct {
	Engine
	s *Server
}

func (b *boundedEngine) Create(ctx context.Context, who engine.Caller, req engine.CreateRequest) (made engine.Sandbox, err error) {
	err = b.creating(who, func() error { made, err = b.Engine.Create(ctx, who, req); return err })
	return made, err
}

func (b *boundedEngine) Fork(ctx context.Context, who engine.Caller, id string, req engine.ForkRequest) (made []engine.Sandbox, err error) {
	err = b.creating(who, func() error { made, err = b.Engine.Fork(ctx, who, id, req); return err })
	return made, err
}

func (b *boundedEngine) Snapshot(ctx context.Context, who engine.Caller, id string, req engine.SnapshotRequest) (made engine.Snapshot, err error) {
	err = b.creating(who, func() error { made, err = b.Engine.Snapshot(ctx, who, id, req); return err })
	return made, err
}

func (b *boundedEngine) Mark(ctx context.Context, who engine.Caller, id, name string) (made engine.Mark, err error) {
	err = b.creating(who, func() error { made, err = b.Engine.Mark(ctx, who, id, name); return err })
	return made, err
}

func (b *boundedEngine) Rollback(ctx context.Context, who engine.Caller, id string, req engine.RollbackRequest) (now engine.Sandbox, err error) {
	err = b.creating(who, func() error { now, err = b.Engine.Rollback(ctx, who, id, req); return err })
	return now, err
}

func (b *boundedEngine) Promote(ctx context.Context, who engine.Caller, id string, req engine.PromoteRequest) (made engine.TemplateInfo, err error) {
	err = b.creating(who, func() error { made, err = b.Engine.Promote(ctx, who, id, req); return err })
	return made, err
}

func (b *boundedEngine) creating(who engine.Caller, do func() error) error {
	leave, err := b.s.creations.enter(who.Name)
	if err != nil {
		return err
	}
	defer leave()
	return do()
}

// backend is a daemon as tools act on it.
type backend struct{ *Client }

var (
	_ tool.Backend = backend{}
	_ tool.Runner  = backend{}
)

// Backend is the daemon as tools act on it, on behalf of the client's caller.
func (c *Client) Backend() tool.Backend { return backend{c} }

// NetworkDecisions implements tool.Backend.
func (b backend) NetworkDecisions(ctx context.Context, id string) ([]sandbox.NetworkDecision, int64, error) {
	log, err := b.NetworkLog(ctx, id)
	return log.Decisions, log.Missed, err
}

// Systems implements tool.Backend.
func (b backend) Systems(ctx context.Context) (list []tool.System, err error) {
	found, err := b.Client.Systems(ctx)
	for _, one := range found {
		list = append(list, tool.System(one))
	}
	return list, err
}

// Guest implements tool.Backend. Tools have asked for the sandbox just before.
func (b backend) Guest(_ context.Context, id string) (*guest.Client, func(), error) {
	return b.GuestOf(id, guest.ClientOptions{}), func() {}, nil
}

// Run implements tool.Runner: one request, where a stream takes several.
func (b backend) Run(ctx context.Context, id string, cmd guest.Cmd, stdin string, most time.Duration) (tool.Ended, error) {
	r, err := b.Exec(ctx, id, ExecRequest{Command: append([]string{cmd.Path}, cmd.Args...), Env: cmd.Env, WorkDir: cmd.Dir, Stdin: stdin, Timeout: most})
	return tool.Ended{Process: r.Process, Status: guest.Status{Code: r.ExitCode, Signal: syscall.Signal(r.Signal), OutOfMemory: r.OutOfMemory}, TimedOut: r.TimedOut,
		Stdout: []byte(r.Stdout.String()), Stderr: []byte(r.Stderr.String()), StdoutDropped: r.Stdout.Truncated, StderrDropped: r.Stderr.Truncated}, err
}
