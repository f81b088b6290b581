package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

// eventFlags are the flags of events, as typed.
type eventFlags struct {
	follow, json bool
	since        uint64
	sandbox      string
}

func eventsCommand() *cobra.Command {
	f := &eventFlags{}
	cmd := &cobra.Command{
		Use:   "events [ID]",
		Short: "Print what has happened to sandboxes",
		Long: `Print what has happened to sandboxes, or to one: created, started, paused, resumed, forked, ended
with its cause. The daemon remembers the last thousands; with --follow, what happens from now on
is printed too. Every event has a number: --since goes on after one.`,
		Example: `  aether events
  aether events --follow --since 120
  aether events 7k2m9x0r4c8v1b5n3q6w --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exactly(1, "one id at most")(cmd, args)
			}
			return nil
		},
		ValidArgsFunction: completeIDs(1),
	}
	flags := cmd.Flags()
	flags.BoolVarP(&f.follow, "follow", "f", false, "go on with what happens, until interrupted")
	flags.Uint64Var(&f.since, "since", 0, "begin after the event of this number")
	flags.BoolVar(&f.json, "json", false, "print an object of JSON on each line")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			f.sandbox = args[0]
		}
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error { return f.print(ctx, cmd, client) })
	}
	return cmd
}

func (f *eventFlags) print(ctx context.Context, cmd *cobra.Command, client *rest.Client) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	last := f.since
	for event, err := range f.events(ctx, client) {
		if err != nil {
			return f.ended(err, last)
		}
		last = event.Number
		if f.sandbox != "" && event.Sandbox != f.sandbox {
			continue
		}
		if err := f.printOne(cmd, event); err != nil {
			return err
		}
	}
	return nil
}

func (f *eventFlags) events(ctx context.Context, client *rest.Client) iter.Seq2[engine.Event, error] {
	if f.follow {
		return client.Events(ctx, f.since)
	}
	return client.History(ctx, f.since)
}

// ended says how to go on where the events ended.
func (f *eventFlags) ended(err error, last uint64) error {
	var e *sandbox.Error
	if f.follow && last > 0 && errors.As(err, &e) && e.Class == sandbox.Unavailable {
		told := *e
		told.Remedy = "go on with aether events --follow --since " + strconv.FormatUint(last, 10)
		return &told
	}
	return err
}

func (f *eventFlags) printOne(cmd *cobra.Command, event engine.Event) error {
	if f.json {
		var line bytes.Buffer
		if err := json.NewEncoder(&line).Encode(event); err != nil {
			return err
		}
		_, err := cmd.OutOrStdout().Write(visibleJSON(line.Bytes()))
		return err
	}
	return printText(cmd, visible(eventText(event)))
}

func eventText(e engine.Event) string {
	line := fmt.Sprintf("%d  %s  %-11s  %s", e.Number, timeText(e.Time), e.Kind, e.Sandbox)
	if detail := metadataText(e.Detail); detail != "" {
		line += "  " + detail
	}
	return line
}
