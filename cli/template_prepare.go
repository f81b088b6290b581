package cli

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/interpreter"
	"aether/sandbox"
)

// prepareFlags are the flags of template prepare, as typed. What the sandbox is
// comes from the flags that run has too.
type prepareFlags struct {
	runFlags
	commands                       []string
	code, line, file, readyCommand string
	timeout                        time.Duration
	ahead                          int
	tags                           []string
	replace, noCache               bool
	recipe                         engine.Recipe
}

func templatePrepareCommand(drivers *drivers) *cobra.Command {
	f := &prepareFlags{}
	cmd := &cobra.Command{
		Use:   "prepare NAME [flags] [--code LANGUAGE FILE | -- COMMAND [ARGUMENT...]]",
		Short: "Prepare a template and keep it",
		Long: "Make a sandbox, run commands in it, leave a process running and keep all of that to be forked. The\n" +
			"process is a command, or an interpreter that has run a file of code (- is standard input).\n" +
			"It is kept by the daemon until `aether template rm`, and forked by all who may use that.",
		Example: `  aether template prepare py --code python imports.py
  echo 'import json, decimal' | aether template prepare py --code python -
  aether template prepare shell --run 'mkdir /tmp/w' --code bash -  < /dev/null
  aether template prepare shell --replace --no-cache --run 'mkdir /tmp/w' --code bash -  < /dev/null
  aether template prepare server --ready-line listening -- ./server --port 8080
  aether template prepare work --memory 512M --ready-file /tmp/up -- sh -c 'touch /tmp/up; exec sleep 1000000'`,
		Args: func(_ *cobra.Command, args []string) error { return f.arguments(args) },
		RunE: func(cmd *cobra.Command, _ []string) error { return f.prepare(cmd, drivers) },
	}
	f.registerSandbox(cmd, drivers)
	flags := cmd.Flags()
	flags.SetInterspersed(true)
	flags.StringArrayVar(&f.commands, "run", nil, "run this shell command first; repeatable, in order")
	flags.StringVar(&f.code, "code", "", "leave an interpreter running that has run FILE: python, node, typescript or bash")
	flags.StringVar(&f.line, "ready-line", "", "ready when a line of the command's output contains this")
	flags.StringVar(&f.file, "ready-file", "", "ready when this path exists inside")
	flags.StringVar(&f.readyCommand, "ready-command", "", "ready when this shell command succeeds")
	flags.DurationVar(&f.timeout, "ready-timeout", engine.DefaultTimeout, "give up after this long")
	flags.IntVar(&f.ahead, "ahead", 0, "keep this many children forked ahead")
	flags.StringArrayVar(&f.tags, "tag", nil, "have this version be NAME:TAG too; repeatable")
	flags.BoolVar(&f.replace, "replace", false, "prepare the next version of a template that exists; until it is ready, the last one serves")
	flags.BoolVar(&f.noCache, "no-cache", false, "run every --run command, also those that ran before after the same commands")
	flags.BoolVar(&f.json, "json", false, "print JSON instead of text")
	languages := make([]string, 0, 3)
	for _, l := range interpreter.Languages() {
		languages = append(languages, string(l))
	}
	if err := cmd.RegisterFlagCompletionFunc("code", cobra.FixedCompletions(languages, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag was registered just above
	}
	return cmd
}

// arguments takes NAME and then FILE, for code, or a command.
func (f *prepareFlags) arguments(args []string) error {
	if len(args) == 0 {
		return &sandbox.Error{Class: sandbox.Invalid, Field: "name", Reason: "none is given", Remedy: "usage: aether template prepare NAME [flags] -- COMMAND"}
	}
	f.recipe.Name, args = args[0], args[1:]
	if f.code == "" {
		f.recipe.Command = args
		return nil
	}
	if len(args) != 1 {
		return &sandbox.Error{Class: sandbox.Invalid, Field: "--code", Reason: fmt.Sprintf("one file of code must be named, not %d", len(args)), Remedy: "- is standard input"}
	}
	f.recipe.Code = &engine.Code{Language: interpreter.Language(f.code), Source: args[0]}
	return nil
}

// fillIn makes the recipe of what was typed.
func (f *prepareFlags) fillIn(stdin io.Reader) (err error) {
	r := &f.recipe
	if f.image, err = absoluteImage(f.image); err != nil {
		return err
	}
	if r.Spec, err = f.spec(); err != nil {
		return err
	}
	for _, command := range f.commands {
		r.Run = append(r.Run, shell(command))
	}
	r.Ready = engine.Ready{Line: f.line, File: f.file, Timeout: f.timeout}
	if f.readyCommand != "" {
		r.Ready.Command = shell(f.readyCommand)
	}
	if err := r.Validate(); err != nil {
		return err
	}
	if f.ahead < 0 || f.ahead > maxAhead {
		return sandbox.Invalidf("--ahead", "%d is not between 0 and %d", f.ahead, maxAhead)
	}
	if r.Code != nil {
		r.Code.Source, err = readCode(r.Code.Source, stdin)
	}
	return err
}

// maxAhead bounds what is kept ready of one template.
const maxAhead = 1000

func shell(command string) []string { return []string{"sh", "-c", command} }

// maxCode is more than an interpreter takes in one call, or a daemon for a template.
const maxCode = 8<<20 + 1

// readCode reads a file of code.
func readCode(path string, stdin io.Reader) (string, error) {
	from := stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return "", &sandbox.Error{Class: sandbox.Invalid, Field: "--code", Err: err}
		}
		defer file.Close()
		from = file
	}
	text, err := io.ReadAll(io.LimitReader(from, maxCode))
	if err != nil {
		return "", err
	}
	return string(text), nil
}

func (f *prepareFlags) prepare(cmd *cobra.Command, drivers *drivers) error {
	if err := f.fillIn(cmd.InOrStdin()); err != nil {
		return err
	}
	req := engine.TemplateRequest{Recipe: f.recipe, Driver: f.driver, Tags: f.tags, Ahead: f.ahead, Version: 1, NoCache: f.noCache}
	if f.replace {
		req.Version = 0
	}
	if name, err := drivers.canonical(f.driver); err == nil {
		req.Driver = name
	}
	// The preparation ends with this command until it is ready.
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	client, err := openDaemon(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	observe, drawn := watchProgress(cmd, f.json)
	info, err := client.PrepareTemplate(ctx, req, observe)
	drawn()
	if err != nil {
		return asFlag(err)
	}
	return printPrepared(cmd, info, f.json)
}

// printPrepared says that a template is ready, and what to try next.
func printPrepared(cmd *cobra.Command, info engine.TemplateInfo, asJSON bool) error {
	if asJSON {
		return printJSON(cmd, summaryOf(info))
	}
	text := fmt.Sprintf("%s is ready: %s, prepared in %s\nfork it with: aether run --template %s%s",
		visible(info.Name), visible(residentText(info)), milliseconds(info.Took), visible(info.Name), howToUse(info))
	for _, line := range commandLines(info.Commands) {
		text += "\n" + line
	}
	if info.Reason != "" {
		text += "\nbut " + visible(oneLine(info.Reason))
	}
	return printText(cmd, text)
}

// commandLines say what became of each command of a recipe.
func commandLines(list []engine.PreparedCommand) (lines []string) {
	for _, c := range list {
		line := "  cached: "
		if !c.Cached {
			line = "  ran in " + milliseconds(c.Took) + ": "
		}
		line += visible(oneLine(c.Command))
		if c.Unkept != "" {
			line += " (not kept: " + visible(oneLine(c.Unkept)) + ")"
		}
		lines = append(lines, line)
	}
	return lines
}

// howToUse completes the command line that a user may try next.
func howToUse(info engine.TemplateInfo) string {
	switch left := info.Resident; {
	case left == nil || left.PID == 0:
		return " -- COMMAND"
	case left.Interpreter != nil:
		return " -c CODE"
	}
	return " [-- COMMAND]"
}

// residentText says what is left running.
func residentText(info engine.TemplateInfo) string {
	r := info.Recipe
	switch {
	case r.Code != nil:
		return string(r.Code.Language)
	case info.Source != "":
		return "what ran in " + info.Source
	}
	const most = 40
	text := oneLine(strings.Join(r.Command, " "))
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

func milliseconds(d time.Duration) string {
	if d >= 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}
