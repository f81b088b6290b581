package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"aether/sandbox"
)

// options are what is run, and how it is told.
type options struct {
	hosts              []host
	ways, steps        []string
	state              string
	list               bool
	asJSON, asMarkdown bool
	limit              time.Duration
	short, verbose     bool
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var hostName, wayNames, stepNames string
	flags := flag.NewFlagSet("hosttest", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&hostName, "host", "", "only the hosts of these `names`, by commas; -list shows them")
	flags.StringVar(&wayNames, "way", "", "only these `ways` of starting the programs: "+strings.Join(ways, ","))
	flags.StringVar(&stepNames, "steps", "", "only these `steps`: "+strings.Join(steps, ",")+", or "+strings.Join(namedSteps, " and ")+", which are run only when they are named")
	flags.StringVar(&o.state, "state", "", "the `directory` to keep root file systems and logs in, by default in the user's cache")
	flags.BoolVar(&o.list, "list", false, "list the hosts and run nothing")
	flags.BoolVar(&o.asJSON, "json", false, "print the results as JSON")
	flags.BoolVar(&o.asMarkdown, "markdown", false, "print the results as rows for docs/hosts.md")
	flags.DurationVar(&o.limit, "timeout", 3*time.Hour, "how long one machine may run")
	flags.BoolVar(&o.short, "short", false, "only what fits into a few minutes: a small root file system, "+strings.Join(briefWays, " and ")+", "+strings.Join(briefSteps, ", "))
	flags.BoolVar(&o.verbose, "v", false, "show the machines' consoles")
	if err := flags.Parse(args); err != nil {
		return o, sandbox.Invalidf("flags", "%v", err)
	}
	if flags.NArg() > 0 {
		return o, sandbox.Invalidf("flags", "%.80q is no flag", flags.Arg(0))
	}
	return o, o.choose(hostName, wayNames, stepNames)
}

func (o *options) choose(hostName, wayNames, stepNames string) (err error) {
	knownWays, knownSteps := ways, steps
	if o.short {
		knownWays, knownSteps = briefWays, briefSteps
	}
	if o.ways, err = among("way", wayNames, knownWays); err != nil {
		return err
	}
	if stepNames != "" {
		knownSteps = append(slices.Clone(knownSteps), namedSteps...)
	}
	if o.steps, err = among("steps", stepNames, knownSteps); err != nil {
		return err
	}
	names, err := among("host", hostName, hostNames())
	for _, name := range names {
		h, _ := findHost(name)
		if o.short {
			h = h.small()
		}
		o.hosts = append(o.hosts, h)
	}
	return err
}

// among reads a list of names; none stands for all that are known.
func among(field, list string, known []string) ([]string, error) {
	if list == "" {
		return known, nil
	}
	names := strings.Split(list, ",")
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, sandbox.Invalidf(field, "%.80q is none of %s", name, strings.Join(known, ", "))
		}
	}
	return names, nil
}

func writeList(w io.Writer, hosts []host) error {
	for _, h := range hosts {
		if _, err := fmt.Fprintf(w, "%-20s  %s\n", h.name, h.why); err != nil {
			return err
		}
	}
	return nil
}
