package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"aether/lab"
	"aether/sandbox"
)

func main() { os.Exit(doMain(os.Args[1:], os.Stdout, os.Stderr)) }

// doMain gives the exit status: 0 also for missed targets, which are results.
func doMain(args []string, stdout, stderr io.Writer) int {
	opts, err := parseOptions(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	// An interrupted run still takes down what it set up.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err == nil {
		err = run(ctx, opts, stdout, stderr)
	}
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "bench:", err)
	if sandbox.ClassOf(err) == sandbox.Invalid {
		return 2
	}
	return 1
}

func run(ctx context.Context, opts options, stdout, progress io.Writer) error {
	report, err := lab.Run(ctx, opts.rounds, opts.chosen(), progress)
	if err != nil {
		return err
	}
	if opts.json {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		return encoder.Encode(report)
	}
	_, err = io.WriteString(stdout, report.Text())
	return err
}
