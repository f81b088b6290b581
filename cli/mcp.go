package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/internal/host/storedir"
	"aether/mcp"
	"aether/rest"
	"aether/sandbox"
	"aether/tool"
)

// idleTime is how long a sandbox without keep lives that no call of an agent is about,
// where nothing tells that the agent is gone.
const idleTime = 10 * time.Minute

// agentGC is how much a program that serves one agent allocates, in per cent of what it
// holds, before it collects garbage. It holds 2 MiB, and the library decodes each message
// into some 200 KiB: by default every eighth call would wait for a collection.
const agentGC = 400

// mcpFlags are the flags of mcp, as typed.
type mcpFlags struct {
	profile string
	files   string
	daemon  bool
}

func mcpCommand(drivers *drivers) *cobra.Command {
	f := &mcpFlags{}
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve sandboxes to an agent by the Model Context Protocol",
		Long: `Serve sandboxes to an agent by the Model Context Protocol, over standard input and output:
add this command to the agent's list of servers. Sandboxes that the agent makes without keep end
with this program. They are the daemon's where one runs (or AETHER_URL names one), and else of an
engine of this program's own, which keeps nothing; --daemon starts a daemon where none runs.`,
		Example: `  claude mcp add aether -- aether mcp
  aether mcp --profile full --files ./data
  aether mcp --daemon`,
		Args: noArguments,
	}
	registerProfile(cmd, &f.profile, tool.Compact)
	cmd.Flags().StringVar(&f.files, "files", "", "a directory that file_upload reads from and file_download writes new files to; default: none")
	cmd.Flags().BoolVar(&f.daemon, "daemon", false, "use the daemon, and start one if none runs")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return f.run(cmd, drivers) }
	return cmd
}

// registerProfile registers the flag that chooses tools.
func registerProfile(cmd *cobra.Command, to *string, preset tool.Profile) {
	cmd.Flags().StringVar(to, "profile", string(preset), "which tools: compact, the dozen that most work takes, or full")
	if err := cmd.RegisterFlagCompletionFunc("profile", cobra.FixedCompletions(profileNames(), cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag was registered just above
	}
}

func profileNames() (names []string) {
	for _, p := range tool.Profiles() {
		names = append(names, string(p))
	}
	return names
}

// profileOf knows a profile by its name.
func profileOf(name string) (tool.Profile, error) {
	if !slices.Contains(profileNames(), name) {
		return "", unknownName("--profile", name, profileNames())
	}
	return tool.Profile(name), nil
}

func (f *mcpFlags) run(cmd *cobra.Command, drivers *drivers) (err error) {
	profile, err := profileOf(f.profile)
	if err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(agentGC))
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	log := daemonLog(cmd.ErrOrStderr())
	opts := tool.Options{Profile: profile, Own: true, Expose: true, Reveal: true, Logger: log}
	if f.files != "" {
		if opts.Files, err = os.OpenRoot(f.files); err != nil {
			return &sandbox.Error{Class: sandbox.Invalid, Field: "--files", Reason: "it is no directory that can be shared", Err: err}
		}
		defer func() { err = errors.Join(err, opts.Files.Close()) }()
	}
	done, err := f.connect(ctx, drivers, &opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	session, err := tool.New(opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close(context.WithoutCancel(ctx))) }()
	err = mcp.Serve(ctx, session, io.NopCloser(cmd.InOrStdin()), unclosed{cmd.OutOrStdout()}, mcp.Options{Version: readBuild().Version, Logger: warnings(log)})
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil // the agent has ended it
	}
	return err
}

// unclosed is an output that is its owner's to close.
type unclosed struct{ io.Writer }

// Close implements io.Closer.
func (unclosed) Close() error { return nil }

// warnings leaves out of a log what is no trouble.
func warnings(log *slog.Logger) *slog.Logger { return slog.New(quiet{log.Handler()}) }

type quiet struct{ slog.Handler }

func (q quiet) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && q.Handler.Enabled(ctx, l)
}

// connect finds what the tools act on: a daemon, or an engine in this program.
func (f *mcpFlags) connect(ctx context.Context, drivers *drivers, opts *tool.Options) (done func() error, err error) {
	client, err := f.daemonFor(ctx)
	if err != nil {
		return nil, err
	}
	if client == nil {
		return openOwnEngine(ctx, drivers, opts)
	}
	opts.Backend, opts.Idle = client.Backend(), idleTime
	return holdDaemon(ctx, client, opts.Logger), nil
}

// daemonFor is a client of the daemon that is named, or that runs, or nil.
func (f *mcpFlags) daemonFor(ctx context.Context) (*rest.Client, error) {
	if f.daemon || os.Getenv(urlVariable) != "" {
		return openDaemon(ctx)
	}
	client, err := daemonClient()
	if err != nil {
		return nil, err
	}
	if daemonAnswers(ctx, client) != nil {
		client.Close()
		return nil, nil
	}
	return client, nil
}

// holdDaemon follows the daemon's events, so that it does not end for having nothing to do
// while the agent thinks.
func holdDaemon(ctx context.Context, client *rest.Client, log *slog.Logger) (done func() error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var holding sync.WaitGroup
	holding.Go(func() {
		for _, err := range client.Events(ctx, 0) {
			if err != nil && ctx.Err() == nil {
				log.Warn("the daemon is not held any more", "err", err)
			}
		}
	})
	return func() error {
		cancel()
		holding.Wait()
		client.Close()
		return nil
	}
}

// openOwnEngine opens an engine that ends with this program, and leaves nothing.
func openOwnEngine(ctx context.Context, drivers *drivers, opts *tool.Options) (done func() error, err error) {
	parent := filepath.Join(storedir.Lasting(), "mcp")
	if err := storedir.Prepare(parent); err != nil {
		return nil, err
	}
	if _, err := storedir.ReapScratch(parent); err != nil {
		return nil, err
	}
	dir, release, err := storedir.Scratch(ctx, parent)
	if err != nil {
		return nil, err
	}
	e, err := engine.Open(engine.Options{Logger: opts.Logger, State: dir, Drivers: drivers.makers})
	if err != nil {
		return nil, errors.Join(err, release())
	}
	who := engine.Caller{Tenant: rest.LocalTenant, Operator: true, Name: "mcp"}
	opts.Backend, opts.Ephemeral = tool.OfEngine(e, who, toolSystems(e.Drivers())), true
	return func() error {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
		defer cancel()
		return errors.Join(e.Close(ending), release())
	}, nil
}

// toolSystems lists what tools tell of the drivers that an engine uses.
func toolSystems(drivers *engine.Drivers) func(context.Context) ([]tool.System, error) {
	return func(ctx context.Context) ([]tool.System, error) {
		var list []tool.System
		for _, a := range availabilities(ctx, drivers.All()) {
			list = append(list, tool.System(a))
		}
		return list, nil
	}
}
