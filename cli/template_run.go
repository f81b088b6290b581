package cli

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"aether/cli/holder"
	"aether/engine"
	"aether/guest"
	"aether/sandbox"
)

// fixedByTemplate are the flags of run that say what a template has said already.
var fixedByTemplate = []string{"isolation", "driver", "image", "on-disk", "env", "mount", "workdir", "user", "net", "explain"}

// runTemplate runs something in a fork of a template: a command, code, or what the
// template left running.
func (f *runFlags) runTemplate(cmd *cobra.Command, spec sandbox.Spec, args []string) error {
	for _, name := range fixedByTemplate {
		if cmd.Flags().Changed(name) {
			return sandbox.Invalidf("--"+name, "a fork has what its template has")
		}
	}
	client, err := templates().Dial(cmd.Context(), f.template)
	if err != nil {
		return suggestTemplate(err, f.template)
	}
	defer client.Close()
	driver, err := client.Driver(cmd.Context())
	if err != nil {
		return err
	}
	interprets := driver.Template().Recipe.Code != nil
	spec = sandbox.Spec{Limits: spec.Limits}
	switch {
	case len(args) > 0 && f.code != "":
		return sandbox.Invalidf("-c", "a command and code cannot both be run")
	case len(args) == 0 && interprets:
		return f.runCode(cmd, driver, spec)
	case f.code != "":
		return sandbox.Invalidf("-c", "the template %s left a command running and no interpreter", f.template)
	case len(args) == 0 && f.terminal:
		return sandbox.Invalidf("-t", "what the template %s left running has no terminal", f.template)
	}
	f.input = f.input || len(args) == 0
	return newSession(f, cmd).run(engine.Only(driver), spec, args)
}

// suggestTemplate names the nearest template where there is none of the name.
func suggestTemplate(err error, name string) error {
	if sandbox.ClassOf(err) != sandbox.NotFound {
		return err
	}
	names, failed := templates().Names()
	if failed != nil || len(names) == 0 || slices.Contains(names, name) {
		return err
	}
	return unknownName("--template", name, names)
}

// begin starts the command, or connects to what the template left running.
func (s *session) begin(ctx context.Context, cmd guest.Cmd) (*guest.Running, error) {
	if child, ok := s.instance.(*holder.Child); ok && cmd.Path == "" {
		return s.client.Connect(ctx, child.Resident(), cmd)
	}
	return s.client.Start(ctx, cmd)
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
