package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"aether/guest"
	"aether/interpreter"
	"aether/sandbox"
)

// Steps of a preparation, as its observer is told.
const (
	StepCreate = "making the sandbox"
	StepRun    = "running"                                         // with the command
	StepCached = "cached"                                          // the same, of which the files are kept
	StepAwait  = "waiting for another preparation that is running" // the same
	StepStart  = "starting"
	StepReady  = "waiting until it is ready"
	// StepOutput is no step: a line of what the last one writes follows it.
	StepOutput = "| "
	StepTry    = "trying a fork"
	// Those of a template that is made of a sandbox, or of its memory.
	StepFork    = "forking the sandbox"
	StepRestore = "restoring its memory"
)

// preparation is a template while it is made.
type preparation struct {
	recipe   Recipe
	driver   sandbox.Driver
	cache    *layerCache // nil if every command is to run and nothing is kept
	instance sandbox.Instance
	fidelity sandbox.Fidelity // of forks of the instance
	client   *guest.Client
	archive  func(name string) (io.ReadCloser, error)
	notify   func(step string)
	commands []PreparedCommand
	resident Resident
	streams  *Streams // of a command that was started
	output   *lines
}

// open makes the sandbox by do, unless no running process of it can be forked.
func (p *preparation) open(ctx context.Context, do func() (sandbox.Instance, error)) (err error) {
	if p.instance, err = do(); err != nil {
		return err
	}
	p.client = guest.ClientFor(p.instance, guest.ClientOptions{})
	p.fidelity, err = fidelityOf(p.instance, p.driver.Info().Name)
	return err
}

// close lets go of the sandbox, and ends it too if that is wanted.
func (p *preparation) close(ctx context.Context, end bool) (err error) {
	if p.streams != nil {
		p.streams.Close()
	}
	if p.client != nil {
		p.client.Close()
	}
	if p.instance != nil && end {
		err = p.instance.Destroy(context.WithoutCancel(ctx))
	}
	p.streams, p.client, p.instance = nil, nil, nil
	return err
}

func (p *preparation) create(ctx context.Context, spec sandbox.Spec) error {
	p.notify(StepCreate)
	return p.open(ctx, func() (sandbox.Instance, error) { return p.driver.Create(ctx, spec) })
}

// prepare makes the sandbox and brings it to the point where it is forked.
func (p *preparation) prepare(ctx context.Context) error {
	if p.cache == nil {
		if err := p.create(ctx, p.recipe.Spec); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, p.recipe.Ready.timeout())
	defer cancel()
	if err := p.runAll(ctx); err != nil {
		return err
	}
	if p.recipe.Code != nil || len(p.recipe.Command) > 0 {
		p.notify(StepStart + " " + p.recipe.resident())
		if err := p.start(ctx); err != nil {
			return err
		}
	}
	p.notify(StepReady)
	return p.awaitReady(ctx)
}

// runAll has the commands of the recipe have run.
func (p *preparation) runAll(ctx context.Context) error {
	if p.cache != nil {
		return p.runCached(ctx)
	}
	for _, step := range p.recipe.steps() {
		if err := p.run(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// run does a step to its end.
func (p *preparation) run(ctx context.Context, step Step) error {
	p.notify(StepRun + " " + step.shown())
	start, output := time.Now(), newLines("")
	output.tell = p.notifyLine
	status, err := p.do(ctx, step, output)
	output.end()
	if err != nil {
		return fmt.Errorf("engine: run %s: %w", step.shown(), err)
	}
	if status.Code != 0 || status.Signal != 0 {
		return commandFailure{&sandbox.Error{Class: sandbox.Conflict, Op: "engine: run " + step.shown(),
			Reason: "it " + ending(status) + said(output)}}
	}
	p.commands = append(p.commands, PreparedCommand{Command: step.shown(), Took: time.Since(start)})
	return nil
}

// commandFailure is the error of a command that has run and failed, and would again.
type commandFailure struct{ error }

func (f commandFailure) Unwrap() error { return f.error }

// notifyLine tells of a line of output.
func (p *preparation) notifyLine(line string) { p.notify(StepOutput + line) }

func runCommand(ctx context.Context, client *guest.Client, cmd guest.Cmd) (guest.Status, error) {
	running, err := client.Start(ctx, cmd)
	if err != nil {
		return guest.Status{}, err
	}
	return running.Wait()
}

// start starts what is left running.
func (p *preparation) start(ctx context.Context) error {
	if p.recipe.Code != nil {
		return p.startCode(ctx, *p.recipe.Code)
	}
	command := p.recipe.Command
	p.output = newLines(p.recipe.Ready.Line)
	p.output.tell = p.notifyLine
	streams, err := startStreams(ctx, p.client, guest.Cmd{Path: command[0], Args: command[1:], Stdout: p.output, Stderr: p.output})
	if err != nil {
		return fmt.Errorf("engine: start %s: %w", shown(command), err)
	}
	p.streams, p.resident = streams, Resident{PID: streams.Pid()}
	return nil
}

func (p *preparation) startCode(ctx context.Context, code Code) error {
	context, err := interpreter.Start(ctx, p.client, code.Language, interpreter.Options{})
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	defer context.Detach()
	handle := context.Handle()
	p.resident = Resident{handle.PID, &handle}
	result, err := context.Run(ctx, code.Source, interpreter.Handler{})
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	if e := result.Error; e != nil {
		return &sandbox.Error{Class: sandbox.Conflict, Op: "engine: run the code", Reason: e.Name + ": " + e.Message, Remedy: e.Traceback}
	}
	if result.Status != 0 {
		return &sandbox.Error{Class: sandbox.Conflict, Op: "engine: run the code", Reason: fmt.Sprintf("its last command gave %d: %s", result.Status, result.Logs.Stderr)}
	}
	return nil
}

// probeEvery is how often a condition is looked at that nothing tells about.
const probeEvery = 20 * time.Millisecond

func (p *preparation) awaitReady(ctx context.Context) error {
	ready := p.recipe.Ready
	switch {
	case ready.Line != "":
		return p.awaitLine(ctx)
	case ready.File != "":
		return p.awaitProbe(ctx, "the file "+ready.File+" is not there", p.fileExists)
	case len(ready.Command) > 0:
		return p.awaitProbe(ctx, shown(ready.Command)+" does not succeed", p.commandSucceeds)
	}
	return nil
}

func (p *preparation) awaitLine(ctx context.Context) error {
	select {
	case <-p.output.seen:
		return nil
	case <-p.streams.Done():
		// Its last output may have held the line.
		return p.ended()
	case <-ctx.Done():
		return p.late(ctx, fmt.Sprintf("no line of its output contains %q", p.recipe.Ready.Line))
	}
}

// awaitProbe asks until the answer is yes.
func (p *preparation) awaitProbe(ctx context.Context, missing string, probe func(context.Context) (bool, error)) error {
	running := p.residentDone()
	for {
		yes, err := probe(ctx)
		if yes || err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-running:
			if !p.recipe.Idle || p.failed() {
				return p.ended()
			}
			running = nil // it has done what it was for
		case <-ctx.Done():
			return p.late(ctx, missing)
		case <-time.After(probeEvery):
		}
	}
}

func (p *preparation) fileExists(ctx context.Context) (bool, error) {
	_, err := p.client.Stat(ctx, p.recipe.Ready.File)
	if sandbox.ClassOf(err) == sandbox.NotFound {
		return false, nil
	}
	return err == nil, err
}

func (p *preparation) commandSucceeds(ctx context.Context) (bool, error) {
	status, err := runCommand(ctx, p.client, guest.Cmd{Path: p.recipe.Ready.Command[0], Args: p.recipe.Ready.Command[1:]})
	return err == nil && status.Code == 0 && status.Signal == 0, err
}

// residentDone is nil, and so never ready, for an interpreter, which has run its
// code to the end by then.
func (p *preparation) residentDone() <-chan struct{} {
	if p.streams == nil {
		return nil
	}
	return p.streams.Done()
}

// failed says whether what was to be left running has ended, and not well.
func (p *preparation) failed() bool {
	status, err := p.streams.Status()
	return err != nil || status.Code != 0 || status.Signal != 0
}

func (p *preparation) ended() error {
	status, err := p.streams.Status()
	if err != nil {
		return fmt.Errorf("engine: follow %s: %w", shown(p.recipe.Command), err)
	}
	return &sandbox.Error{Class: sandbox.Conflict, Op: "engine: " + shown(p.recipe.Command),
		Reason: "it " + ending(status) + " before it was ready" + said(p.output), Remedy: "leave a process running that stays"}
}

func (p *preparation) late(ctx context.Context, missing string) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	reason := fmt.Sprintf("not ready after %v: %s", p.recipe.Ready.timeout(), missing)
	if p.output != nil {
		reason += said(p.output)
	}
	return &sandbox.Error{Class: sandbox.Timeout, Op: "engine: prepare " + p.recipe.Name, Reason: reason}
}

// resident says in a few words what is left running.
func (r Recipe) resident() string {
	if r.Code != nil {
		return string(r.Code.Language)
	}
	return shown(r.Command)
}

// shown is a command in an error or a line of progress.
func shown(command []string) string {
	const most = 60
	text := strings.Join(strings.Fields(strings.Join(command, " ")), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

func ending(status guest.Status) string {
	if status.Signal != 0 {
		return "was ended by " + status.Signal.String()
	}
	return fmt.Sprintf("ended with status %d", status.Code)
}

func said(output *lines) string {
	if text := output.tail(); text != "" {
		return ": " + text
	}
	return ""
}
