package main

import (
	"context"
	"os/exec"
	"slices"

	"aether/driver/all"
	"aether/driver/cell"
	"aether/lab"
	"aether/lab/daemon"
	"aether/lab/fork"
	"aether/lab/isolation"
	"aether/lab/lifecycle"
	"aether/lab/network"
	"aether/lab/program"
	"aether/sandbox"
)

// Subjects by their names in JSON, in the order in which they are measured.
const (
	sandboxes = "sandboxes"
	programs  = "program"
	forks     = "forks"
	door      = "daemon"
	networks  = "network"
	isolated  = "isolation"
)

func subjectNames() []string { return []string{sandboxes, programs, forks, door, networks, isolated} }

// chosen are the subjects of a run.
func (o options) chosen() []lab.Subject {
	subjects := []lab.Subject{
		{Key: sandboxes, Measure: func(ctx context.Context, say *lab.Progress) (lab.Findings, error) {
			return lifecycle.Measure(ctx, lifecycle.Options{Rounds: o.rounds, Idle: o.idle, Only: o.only}, say)
		}},
		{Key: programs, Measure: o.measureProgram},
		{Key: forks, Measure: o.measureForks},
		{Key: door, Measure: o.measureDaemon},
		{Key: networks, Measure: o.measureNetworks},
		{Key: isolated, Measure: func(ctx context.Context, say *lab.Progress) (lab.Findings, error) {
			return isolation.MeasureAll(ctx, all.Makers(), isolation.Options{Progress: say})
		}},
	}
	return slices.DeleteFunc(subjects, func(s lab.Subject) bool { return !slices.Contains(o.subjects, s.Key) })
}

// programRounds and those of forks are fewer: each takes long.
const (
	programRounds = 50
	daemonRounds  = 100
	// networkIdle is how many sandboxes on a network are enough.
	networkIdle = 100
)

func (o options) measureProgram(ctx context.Context, say *lab.Progress) (lab.Findings, error) {
	path, err := exec.LookPath("aether")
	if err != nil {
		return lab.Skipped{What: "Whole runs of the program", Reason: err.Error()}, nil
	}
	return program.Measure(ctx, program.Options{Rounds: min(o.rounds, programRounds), Program: path}, say)
}

// measureDaemon measures the built daemon beside an engine with the same driver.
func (o options) measureDaemon(ctx context.Context, say *lab.Progress) (lab.Findings, error) {
	path, err := exec.LookPath("aether")
	if err != nil {
		return lab.Skipped{What: "Ways to the daemon", Reason: err.Error()}, nil
	}
	return daemon.Measure(ctx, daemon.Options{Rounds: min(o.rounds, daemonRounds), Idle: o.idle, Program: path, Cells: cells()}, say)
}

// measureNetworks measures the gateways' program that is beside the built aether.
func (o options) measureNetworks(ctx context.Context, say *lab.Progress) (lab.Findings, error) {
	report, err := network.Measure(ctx, network.Options{Rounds: o.rounds, Idle: min(o.idle, networkIdle)}, say)
	if sandbox.ClassOf(err) == sandbox.Unavailable {
		return lab.Skipped{What: "Networks", Reason: err.Error()}, nil
	}
	return report, err
}

// cells is the maker of the driver that is measured.
func cells() sandbox.Maker {
	makers := all.Makers()
	return makers[slices.IndexFunc(makers, func(m sandbox.Maker) bool { return m.Name == cell.Name })]
}

// measureForks measures what `aether bench fork` does, of the same driver.
func (o options) measureForks(ctx context.Context, say *lab.Progress) (lab.Findings, error) {
	report, err := forksOfCells(ctx, fork.Options{Rounds: min(o.rounds, fork.DefaultRounds), Children: min(o.idle, fork.DefaultChildren), Progress: say})
	if class := sandbox.ClassOf(err); class == sandbox.Unsupported || class == sandbox.Unavailable {
		return lab.Skipped{What: "Forks", Reason: err.Error()}, nil
	}
	return report, err
}
