package main

import (
	"flag"
	"io"
	"slices"
	"strings"

	"aether/lab/lifecycle"
	"aether/sandbox"
)

const (
	defaultRounds = 200
	defaultIdle   = 1000
	maxCount      = 100_000
)

type options struct {
	rounds int
	idle   int
	json   bool
	// only are the systems whose lives are measured, and subjects what is measured.
	only, subjects []string
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	var only, subjects string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.rounds, "rounds", defaultRounds, "measure each system this many `times`")
	flags.IntVar(&o.idle, "idle", defaultIdle, "keep this `number` of sandboxes alive for the idle memory")
	flags.BoolVar(&o.json, "json", false, "print the result as data")
	flags.StringVar(&only, "only", strings.Join(lifecycle.Systems(), ","), "measure the lives of these `systems`")
	flags.StringVar(&subjects, "subjects", strings.Join(subjectNames(), ","), "measure these `subjects`")
	if err := flags.Parse(args); err != nil {
		if err == flag.ErrHelp {
			return o, err
		}
		return o, &sandbox.Error{Class: sandbox.Invalid, Err: err}
	}
	o.only, o.subjects = strings.Split(only, ","), strings.Split(subjects, ",")
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
	for _, name := range o.subjects {
		if !slices.Contains(subjectNames(), name) {
			return sandbox.Invalidf("subjects", "%q is not one of %s", name, strings.Join(subjectNames(), ", "))
		}
	}
	return lifecycle.Options{Only: o.only}.Validate()
}
