package main

import (
	"flag"
	"io"
	"slices"
	"strings"

	"aether/sandbox"
)

// Names of the systems, in the order in which they are printed.
const (
	nameCell    = "cell"
	nameFresh   = "cell-fresh"
	nameService = "cell+service"
	nameBwrap   = "bwrap"
	nameCrun    = "crun"
	nameRunc    = "runc"
)

var allNames = []string{nameCell, nameFresh, nameService, nameBwrap, nameCrun, nameRunc}

const (
	defaultRounds = 200
	defaultIdle   = 1000
	maxCount      = 100_000
)

type options struct {
	rounds int
	idle   int
	json   bool
	only   []string
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	var only string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.rounds, "rounds", defaultRounds, "measure each system this many `times`")
	flags.IntVar(&o.idle, "idle", defaultIdle, "keep this `number` of sandboxes alive for the idle memory")
	flags.BoolVar(&o.json, "json", false, "print the result as data")
	flags.StringVar(&only, "only", strings.Join(allNames, ","), "measure these `systems`")
	if err := flags.Parse(args); err != nil {
		if err == flag.ErrHelp {
			return o, err
		}
		return o, &sandbox.Error{Class: sandbox.Invalid, Err: err}
	}
	o.only = strings.Split(only, ",")
	return o, o.validate(flags.Args())
}

func (o options) validate(rest []string) error {
	if len(rest) > 0 {
		return sandbox.Invalidf("arguments", "%q is not a flag", rest[0])
	}
	for flag, n := range map[string]int{"rounds": o.rounds, "idle": o.idle} {
		if n < 1 || n > maxCount {
			return sandbox.Invalidf(flag, "%d is not between 1 and %d", n, maxCount)
		}
	}
	for _, name := range o.only {
		if !slices.Contains(allNames, name) {
			return sandbox.Invalidf("only", "%q is not one of %s", name, strings.Join(allNames, ", "))
		}
	}
	return nil
}

func (o options) wants(name string) bool { return slices.Contains(o.only, name) }
