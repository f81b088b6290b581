package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"aether/agent"
	"aether/agent/script"
	"aether/internal/host/storedir"
	"aether/sandbox"
	"aether/tool"
)

func agentCommand(drivers *drivers) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Have a model work on a task in a sandbox, and branch it",
		Long: `Have a model work on a task in a sandbox of its own. At a step the sandbox can be forked with its
living processes: the forks go on side by side, a command scores them, and the best is kept.`,
		Example: `  aether agent run --model anthropic/claude-sonnet-5-5 --template web 'Make the tests pass.'
  aether agent run --from 7k2m9x0r4c8v1b5n3q6w --keep --branch 8 --score 'make test' 'Make the tests pass.'
  aether agent show
  aether agent rm --keep 20`,
		Args: knownSubcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(agentRunCommand(drivers), agentShowCommand(), agentRemoveCommand())
	return cmd
}

// agentFlags are the flags of agent run, as typed.
type agentFlags struct {
	model, baseURL, script, replay string
	checkpoint                     string
	hide                           []string
	daemon, json, quiet            bool
	opts                           agent.Options
	speech                         *speech // where somebody looks on
}

const everyCall = "every-call"

func agentRunCommand(drivers *drivers) *cobra.Command {
	f := &agentFlags{}
	cmd := &cobra.Command{
		Use:   "run [flags] TASK",
		Short: "Have a model work on a task in a sandbox of its own",
		Long: `Have a model work on a task in a sandbox of its own, by tools for commands, code and files, until it
calls no more of them or a budget is used up. The answer is printed; the status is 0 if the model has
finished and, with --score, that command passed. The key is read from ANTHROPIC_API_KEY, OPENAI_API_KEY
or GEMINI_API_KEY. What happened is written to a transcript, which aether agent show draws.

With --branch the sandbox is forked before a step with its living processes, and the forks go on side by
side. The command of --score is run in each: those that pass come first, then the highest number
on the last line of their output. The best is kept, and the others end.`,
		Example: `  aether agent run --model openai/gpt-5 --setup 'git clone /srv/app /tmp/app' 'Why does /tmp/app not build?'
  aether agent run --from 7k2m9x0r4c8v1b5n3q6w --keep --branch 8 --branch-at 3 --score 'make test' 'Make the tests pass.'
  aether agent run --checkpoint every-call --ask file_remove --max-tokens 200000 --max-time 10m 'Tidy /srv.'
  aether agent run --replay 20260102-150405-k3v9 --branch 8 --score 'make test' 'Make the tests pass.'`,
		Args: exactly(1, "one task"), ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.model, "model", "anthropic/claude-sonnet-5-5", "the model, as PROVIDER/NAME, of "+strings.Join(agent.Providers(), ", "))
	flags.StringVar(&f.baseURL, "base-url", "", "the address of a service that speaks as the provider does")
	flags.StringVar(&f.script, "script", "", "have this file's turns be said instead of a model's")
	flags.StringVar(&f.replay, "replay", "", "have this run's model say again what it said; or the file of its transcript")
	s := &f.opts.Sandbox
	flags.StringVar(&s.From, "from", "", "work in a fork of this sandbox of the daemon's")
	flags.StringVar(&s.Template, "template", "", "make the sandbox of this template")
	flags.StringVar(&s.Image, "image", "", "make the sandbox of this image")
	flags.StringVar(&s.Driver, "driver", "", "make the sandbox by this driver")
	flags.StringSliceVar(&s.Allow, "allow", nil, "what the sandbox may reach, as api.example.com:443 or packages; default: nothing")
	flags.StringVar(&s.Setup, "setup", "", "run this shell command in it first")
	flags.BoolVar(&s.Keep, "keep", false, "keep the sandbox in the daemon, and print its id on standard error")
	b := &f.opts.Branch
	flags.IntVar(&b.Count, "branch", 0, "fork the sandbox into so many")
	flags.IntSliceVar(&b.At, "branch-at", nil, "before these steps; default: the first")
	flags.IntVar(&b.Steps, "branch-steps", 0, "score forks after so many steps, and go on with the best; default: at their ends")
	flags.StringVar(&b.Score, "score", "", "a shell command that scores, by its status and the number that it prints last")
	flags.StringVar(&f.checkpoint, "checkpoint", "", "every-call: mark the sandbox before each call, and let the model undo calls")
	flags.IntVar(&f.opts.Budget.Steps, "max-steps", 50, "turns of the model")
	flags.IntVar(&f.opts.Budget.Tokens, "max-tokens", 0, "tokens that are read and written in all branches; default: no bound")
	flags.DurationVar(&f.opts.Budget.Time, "max-time", time.Hour, "time for the whole run")
	p := &f.opts.Policy
	flags.StringSliceVar(&p.Tools, "tools", nil, "tools that may be called, as file_*; default: command_*, code_*, file_*")
	flags.StringSliceVar(&p.Ask, "ask", nil, "tools that are called only if somebody at the terminal says yes")
	flags.StringSliceVar(&f.hide, "hide", nil, "environment variables whose values must not be in the transcript")
	flags.BoolVar(&f.daemon, "daemon", false, "use the daemon, and start one if none runs")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "do not tell on standard error what is done")
	flags.BoolVar(&f.json, "json", false, "print the outcome as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f.opts.Task = args[0]
		return f.run(cmd, drivers)
	}
	return cmd
}

// agentOutcome is what --json prints.
type agentOutcome struct {
	Run string `json:"run"`
	agent.Outcome
}

func (f *agentFlags) run(cmd *cobra.Command, drivers *drivers) (err error) {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if f.opts.Checkpoint = f.checkpoint == everyCall; f.checkpoint != "" && !f.opts.Checkpoint {
		return unknownName("--checkpoint", f.checkpoint, []string{everyCall})
	}
	for _, name := range f.hide {
		f.opts.Secrets = append(f.opts.Secrets, os.Getenv(name))
	}
	done, err := f.findModel()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	f.opts.Policy.Person = personAt(cmd)

	log := daemonLog(cmd.ErrOrStderr())
	tools := tool.Options{Profile: tool.Full, Own: true, Reveal: true, Logger: log}
	gone, err := (&mcpFlags{daemon: f.daemon || f.opts.Sandbox.Keep || f.opts.Sandbox.From != ""}).connect(ctx, drivers, &tools)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, gone()) }()
	if f.opts.Session, err = tool.New(tools); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.opts.Session.Close(context.WithoutCancel(ctx))) }()
	id, transcript, err := newTranscriptFile()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, transcript.Close()) }()
	f.opts.Transcript = transcript
	if printError(cmd, "aether: run %s", id); !f.quiet && !f.json {
		f.follow(cmd)
	}
	out, err := agent.Run(ctx, f.opts)
	return f.report(cmd, agentOutcome{id, out}, err)
}

// follow has what happens be told on standard error, and what the model says too, as it comes,
// where that is a terminal.
func (f *agentFlags) follow(cmd *cobra.Command) {
	if screenOf(cmd.ErrOrStderr()).width > 0 {
		f.speech = newSpeech(cmd.ErrOrStderr())
		f.opts.Hear = f.speech.hear
		f.opts.Watch = func(e agent.Entry) { f.speech.watch(e, entryText) }
		return
	}
	f.opts.Watch = func(e agent.Entry) {
		if text := entryText(e); text != "" {
			printError(cmd, "%s", text)
		}
	}
}

func (f *agentFlags) report(cmd *cobra.Command, out agentOutcome, err error) error {
	// Who has just seen the answer on this terminal need not be shown it again.
	seen := f.speech != nil && f.speech.close(out.Answer) && screenOf(cmd.OutOrStdout()).width > 0
	if f.json {
		err = errors.Join(err, printJSON(cmd, out))
	} else if err == nil && !seen {
		err = printText(cmd, out.Answer)
	}
	if err != nil {
		return err
	}
	if out.Sandbox != "" {
		printError(cmd, "aether: kept %s", out.Sandbox)
	}
	if out.OK() {
		return nil
	}
	if out.Why != agent.Finished {
		printError(cmd, "aether: the run ended before the model did (%s)", out.Why)
	} else {
		printError(cmd, "aether: the command that scores did not pass")
	}
	return exitCode(1)
}

// entryText says what happens in a run, without what was said in it. What is of no interest
// is nothing.
func entryText(e agent.Entry) string {
	took := milliseconds(time.Duration(e.TookMS * float64(time.Millisecond)))
	switch {
	case e.Kind == agent.Called && e.Call != nil && e.Failed:
		return fmt.Sprintf("aether: %s  step %d  %s failed in %s", e.Line, e.Step, cut(visible(e.Call.Name), 64), took)
	case e.Kind == agent.Called && e.Call != nil:
		return fmt.Sprintf("aether: %s  step %d  %s in %s", e.Line, e.Step, cut(visible(e.Call.Name), 64), took)
	case e.Kind == agent.Forked:
		return fmt.Sprintf("aether: %s  forked into %d in %s", e.Line, len(e.Lines), took)
	case e.Kind == agent.Scored && e.Score != nil:
		return fmt.Sprintf("aether: %s  scored %g in %s", e.Line, e.Score.Number, took)
	case e.Kind == agent.Kept:
		return fmt.Sprintf("aether: %s  kept", e.Line)
	}
	return ""
}

// findModel opens the model of a provider, of a script, or of a transcript.
func (f *agentFlags) findModel() (done func() error, err error) {
	done = func() error { return nil }
	if f.replay != "" {
		entries, err := readTranscript(f.replay)
		if err != nil {
			return nil, err
		}
		f.opts.ModelName = "replay of " + f.replay
		f.opts.Model, err = agent.Replay(entries)
		return done, err
	}
	p, err := agent.ParseModel(f.model)
	if err != nil {
		return nil, asFlag(err)
	}
	f.opts.ModelName, p.Base = f.model, f.baseURL
	if f.script != "" {
		if done, err = f.serveScript(&p); err != nil {
			return nil, err
		}
	} else {
		service, _, _ := strings.Cut(p.Name, "-") // whose formats are several
		variable := strings.ToUpper(service) + "_API_KEY"
		if p.Key = os.Getenv(variable); p.Key == "" {
			return nil, &sandbox.Error{Class: sandbox.Invalid, Field: variable, Reason: "there is no key for " + p.Name, Remedy: "set " + variable + "; or have a --script"}
		}
	}
	f.opts.Secrets = append(f.opts.Secrets, p.Key)
	if f.opts.Model, err = agent.Open(p); err != nil {
		return nil, errors.Join(asFlag(err), done())
	}
	return done, nil
}

// serveScript has a script be what the provider says.
func (f *agentFlags) serveScript(p *agent.Provider) (done func() error, err error) {
	file, err := os.Open(f.script)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	turns, err := script.Read(file)
	if err != nil {
		return nil, err
	}
	p.Key = rand.Text()
	server, err := script.Serve(turns, p.Key)
	if err != nil {
		return nil, err
	}
	p.Base, f.opts.ModelName = server.Base(p.Name), "script "+f.script+" as "+f.model
	return server.Close, nil
}

// personAt asks whoever is at the terminal, if somebody is.
func personAt(cmd *cobra.Command) func(context.Context, string, tool.Request) (bool, error) {
	in, ok := fileOf(cmd.InOrStdin())
	if !ok || !term.IsTerminal(in) {
		return nil
	}
	return func(ctx context.Context, line string, call tool.Request) (bool, error) {
		return askPerson(ctx, cmd, line, call)
	}
}

// askPerson shows a call, and reads whether it may be made: y is yes, and all else is no.
func askPerson(ctx context.Context, cmd *cobra.Command, line string, call tool.Request) (bool, error) {
	printError(cmd, "aether: may line %s call %s %s? [y/N]", line, call.Name, string(visibleJSON(call.Arguments)))
	type answer struct {
		text string
		err  error
	}
	answered := make(chan answer, 1)
	go func() { // which ends with the program, if nobody answers
		text, err := readLine(cmd.InOrStdin())
		answered <- answer{text, err}
	}()
	select {
	case a := <-answered:
		return strings.EqualFold(strings.TrimSpace(a.text), "y"), a.err
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// readLine reads a line and nothing after it, up to a bound.
func readLine(from io.Reader) (string, error) {
	var line []byte
	for one := make([]byte, 1); len(line) < 1024; line = append(line, one[0]) {
		if _, err := io.ReadFull(from, one); err == io.EOF || err == nil && one[0] == '\n' {
			break
		} else if err != nil {
			return "", err
		}
	}
	return string(line), nil
}

// transcriptDir is where transcripts are, for their owner alone.
func transcriptDir() (string, error) {
	dir := filepath.Join(storedir.Lasting(), "agent")
	return dir, storedir.Prepare(dir)
}

func newTranscriptFile() (id string, file *os.File, err error) {
	dir, err := transcriptDir()
	if err != nil {
		return "", nil, err
	}
	id = time.Now().UTC().Format("20060102-150405-") + strings.ToLower(rand.Text()[:4])
	file, err = os.OpenFile(filepath.Join(dir, id+transcriptExt), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	return id, file, err
}
