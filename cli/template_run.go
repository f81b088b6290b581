package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/guest"
	"aether/rest"
	"aether/sandbox"
)

// fixedByTemplate are the flags of run that say what a template has said already.
var fixedByTemplate = []string{"isolation", "driver", "image", "on-disk", "env", "mount", "workdir", "user", "explain"}

// runTemplate runs something in a fork of a template: a command, code, or what the
// template left running.
func (f *runFlags) runTemplate(cmd *cobra.Command, spec sandbox.Spec, args []string) error {
	for _, name := range fixedByTemplate {
		if cmd.Flags().Changed(name) {
			return sandbox.Invalidf("--"+name, "a fork has what its template has")
		}
	}
	if err := forkNetwork(spec.Network); err != nil {
		return err
	}
	// Whoever sends a signal while the daemon is asked does not wait for its answer.
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	client, err := openDaemon(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	info, err := client.GetTemplate(ctx, f.template)
	if err != nil {
		return suggestTemplate(ctx, client, err, f.template)
	}
	stop()
	return f.runFork(cmd, &forks{client, info}, sandbox.Spec{Limits: spec.Limits, Network: spec.Network}, args)
}

// runFork runs what was asked for in a fork.
func (f *runFlags) runFork(cmd *cobra.Command, driver *forks, spec sandbox.Spec, args []string) error {
	left := driver.template.Resident
	interprets := driver.template.Recipe.Code != nil || left != nil && left.Interpreter != nil
	switch {
	case len(args) > 0 && f.code != "":
		return sandbox.Invalidf("-c", "a command and code cannot both be run")
	case len(args) == 0 && interprets:
		return f.runCode(cmd, driver, spec)
	case f.code != "":
		return sandbox.Invalidf("-c", "the template %s left a command running and no interpreter", f.template)
	case len(args) == 0 && driver.template.Source != "" && (left == nil || left.PID == 0):
		return someCommand(cmd, args)
	case len(args) == 0 && f.terminal:
		return sandbox.Invalidf("-t", "what the template %s left running has no terminal", f.template)
	}
	f.input = f.input || len(args) == 0
	return newSession(f, cmd).run(engine.Only(driver), spec, args)
}

// suggestTemplate names the nearest template where there is none of the name.
func suggestTemplate(ctx context.Context, client *rest.Client, err error, name string) error {
	if sandbox.ClassOf(err) != sandbox.NotFound {
		return err
	}
	names, failed := templateNames(ctx, client)
	plain := name
	if at := strings.IndexAny(name, ":@"); at >= 0 {
		plain = name[:at]
	}
	if failed != nil || len(names) == 0 || slices.Contains(names, plain) {
		return err
	}
	return unknownName("--template", name, names)
}

// begin starts the command, or connects to what the template left running.
func (s *session) begin(ctx context.Context, cmd guest.Cmd) (*guest.Running, error) {
	child, ok := s.instance.(*templateChild)
	if !ok {
		return s.client.Start(ctx, cmd)
	}
	begin := s.client.Start
	if cmd.Path == "" {
		begin = func(ctx context.Context, cmd guest.Cmd) (*guest.Running, error) {
			return s.client.Connect(ctx, child.Resident.PID, cmd)
		}
	}
	running, err := begin(ctx, cmd)
	return running, ofSandbox(err)
}

// codeOf is the code to run: that of the flag or else standard input.
func (f *runFlags) codeOf(stdin io.Reader) (string, error) {
	if f.code != "" {
		return f.code, nil
	}
	code, err := readCode("-", stdin)
	if err != nil {
		return "", fmt.Errorf("read the code from standard input: %w", err)
	}
	return code, nil
}
