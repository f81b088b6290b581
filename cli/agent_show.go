package cli

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aether/agent"
	"aether/sandbox"
)

const transcriptExt = ".jsonl"

func agentShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show [RUN]",
		Short: "Draw the tree of a run: what each branch did, took and scored",
		Long: `Draw the tree of a run, or of the file of its transcript: what each branch did, how long it took, how
many tokens, what it scored, and which was kept. Without RUN, of the last one.`,
		Example: "  aether agent show\n  aether agent show 20260102-150405-k3v9 --json\n  aether agent show ./run.jsonl",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exactly(1, "one run")(cmd, args)
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			runs, _ := agentRuns() // without which there is nothing to complete
			return runs, cobra.ShellCompDirectiveDefault
		},
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		run, err := wantedRun(args)
		if err != nil {
			return err
		}
		entries, err := readTranscript(run)
		if err != nil {
			return err
		}
		tree, err := agent.NewTree(entries)
		switch {
		case err != nil:
			return err
		case *asJSON:
			return printJSON(cmd, tree)
		}
		return printText(cmd, strings.Join(runLines(run, tree), "\n"))
	}
	return cmd
}

// agentRuns lists the runs that have a transcript, oldest first: by the second of their names, and
// within that by when they were written to last.
func agentRuns() (runs []string, err error) {
	dir, err := transcriptDir()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	written := map[string]time.Time{}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), transcriptExt); ok {
			info, failed := e.Info()
			if failed != nil {
				continue // it was removed meanwhile
			}
			runs, written[name] = append(runs, name), info.ModTime()
		}
	}
	slices.SortFunc(runs, func(a, b string) int {
		return cmp.Or(strings.Compare(secondOf(a), secondOf(b)), written[a].Compare(written[b]))
	})
	return runs, err
}

// secondOf is the part of a run's name that says when it began.
func secondOf(run string) string { return run[:max(0, strings.LastIndexByte(run, '-'))] }

func wantedRun(args []string) (string, error) {
	if len(args) == 1 {
		return args[0], nil
	}
	runs, err := agentRuns()
	if err != nil {
		return "", err
	}
	if len(runs) == 0 {
		return "", &sandbox.Error{Class: sandbox.NotFound, Field: "run", Reason: "there is none", Remedy: "make one with aether agent run"}
	}
	return runs[len(runs)-1], nil
}

// readTranscript reads that of a run, or of a file, which has a separator or an extension.
func readTranscript(run string) ([]agent.Entry, error) {
	name := run
	if sandbox.IsName(run, 64) {
		dir, err := transcriptDir()
		if err != nil {
			return nil, err
		}
		name = filepath.Join(dir, run+transcriptExt)
	}
	file, err := os.Open(name)
	if os.IsNotExist(err) {
		return nil, &sandbox.Error{Class: sandbox.NotFound, Field: "run", Reason: fmt.Sprintf("there is no run %.80q", run)}
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return agent.Read(file)
}

// runLines draws a run.
func runLines(run string, t *agent.Tree) []string {
	end := "it has no end"
	if o := t.Outcome; o != nil {
		end = fmt.Sprintf("%s, line %s, %d tokens", visible(o.Why), visible(o.Line), o.Tokens.Input+o.Tokens.Output)
		if o.Error != "" {
			end += ": " + visible(oneLine(o.Error))
		}
	}
	lines := []string{
		fmt.Sprintf("run %s  %s  %s", visible(run), visible(t.Model), t.Began.Format(time.DateTime)),
		"task  " + visible(cut(oneLine(t.Task), 100)),
		"end   " + end,
		"", lineText(t.Main),
	}
	return drawForks(lines, t.Main, "")
}

func drawForks(lines []string, l *agent.Line, indent string) []string {
	for i, f := range l.Forks {
		mark, deeper := "├─ ", "│  "
		if i == len(l.Forks)-1 {
			mark, deeper = "└─ ", "   "
		}
		lines = append(lines, indent+mark+lineText(f))
		lines = drawForks(lines, f, indent+deeper)
	}
	return lines
}

// lineText is a line of a run in one of text.
func lineText(l *agent.Line) string {
	parts := []string{l.Name}
	if l.Fate != "" {
		parts = append(parts, string(l.Fate))
	}
	if s := l.Score; s != nil {
		passed := "failed"
		if s.Passed {
			passed = "passed"
		}
		parts = append(parts, fmt.Sprintf("%s, scored %g", passed, s.Number))
	}
	parts = append(parts, milliseconds(time.Duration(l.TookMS*float64(time.Millisecond))), fmt.Sprintf("%d tokens", l.Tokens.Input+l.Tokens.Output), callsText(l))
	if len(l.Forks) > 0 {
		parts = append(parts, fmt.Sprintf("%d forks in %s", len(l.Forks), milliseconds(time.Duration(l.ForkMS*float64(time.Millisecond)))))
	}
	if l.Why != "" {
		parts = append(parts, oneLine(l.Why))
	}
	return visible(strings.Join(parts, "  "))
}

// callsText counts the calls of a line by tool, in the order of their first calls.
func callsText(l *agent.Line) string {
	var order []string
	count, failed := map[string]int{}, map[string]int{}
	for _, c := range l.Calls {
		if count[c.Tool]++; count[c.Tool] == 1 {
			order = append(order, c.Tool)
		}
		if c.Failed {
			failed[c.Tool]++
		}
	}
	for i, name := range order {
		if n := count[name]; n > 1 {
			order[i] += fmt.Sprintf(" ×%d", n)
		}
		if n := failed[name]; n > 0 {
			order[i] += fmt.Sprintf(" (%d failed)", n)
		}
		order[i] = cut(order[i], 80)
	}
	if len(order) > 12 {
		order = append(order[:12], "...")
	}
	if len(order) == 0 {
		return "no calls"
	}
	return strings.Join(order, ", ")
}

// cut is at most so many letters of a text.
func cut(text string, most int) string {
	if letters := []rune(text); len(letters) > most {
		return string(letters[:most-3]) + "..."
	}
	return text
}
