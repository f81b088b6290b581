package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := begin(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hosttest:", err)
	}
	os.Exit(code)
}

// begin takes the side of the machine's wall on which it was started.
func begin(ctx context.Context, args []string) (int, error) {
	if len(args) == 2 && args[0] == "inside" {
		return 0, inside(ctx, args[1])
	}
	return run(ctx, args, os.Stdout, os.Stderr)
}

// run is 0 only if nothing failed.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	o, err := parse(args, stderr)
	if err != nil {
		return 2, err
	}
	if o.list {
		return 0, writeList(stdout, o.hosts)
	}
	results, err := runHosts(ctx, o, stderr)
	if err := errors.Join(err, o.write(stdout, results)); err != nil || failed(results) {
		return 1, err
	}
	return 0, nil
}

func (o options) write(w io.Writer, results []result) error {
	switch {
	case o.asJSON:
		return writeJSON(w, results)
	case o.asMarkdown:
		return writeMarkdown(w, results)
	}
	return writeTable(w, results)
}
