package lifecycle

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"aether/lab"
	"aether/sandbox"
)

const (
	// checkTurn is how often a command is timed before the lab and the other program change
	// turns, so that whatever the host does meanwhile falls on both.
	checkTurn = 3
	// timer is the program that measures the same commands.
	timer = "hyperfine"
)

// Verify has hyperfine time the plain commands of bwrap, runc and Docker that the lab times
// too, in turns of so many rounds in all, and compares their ratios. Errors: Unavailable if
// fewer than two of them, or no hyperfine, are here.
func Verify(ctx context.Context, rounds int, say *lab.Progress) (c Check, err error) {
	path, err := exec.LookPath(timer)
	if err != nil {
		return c, &sandbox.Error{Class: sandbox.Unavailable, Op: "lab", Reason: "there is no " + timer + " to check against", Remedy: "install the package " + timer, Err: err}
	}
	if c.By, err = version(ctx, path); err != nil {
		return c, err
	}
	f, err := emptyField(Options{}, say)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	v := &verification{field: f, timer: path}
	defer func() { err = errors.Join(err, v.close()) }()
	if err := v.enter(ctx); err != nil {
		return c, err
	}
	if err := v.measure(ctx, rounds); err != nil {
		return c, err
	}
	for _, p := range v.commands {
		s := Checked{Name: p.name, Skipped: p.skipped, Command: p.argv}
		if p.skipped == "" {
			s.LabUS, s.OtherUS = lab.Micros(lab.Median(p.ours)), lab.Micros(lab.Median(p.theirs))
		}
		c.Systems = append(c.Systems, s)
	}
	c.judge()
	return c, nil
}

// verification is of plain commands.
type verification struct {
	*field
	timer    string
	commands []*plain
	undo     func() error
}

// plain is a command of a system that makes a sandbox, runs the first program and ends.
type plain struct {
	name, skipped string
	argv          []string
	ours, theirs  []time.Duration
}

func (v *verification) close() error {
	if v.undo == nil {
		return nil
	}
	return v.undo()
}

// enter makes the commands of systems that are here, and tries each.
func (v *verification) enter(ctx context.Context) error {
	there := 0
	for _, one := range []struct {
		name string
		make func(context.Context) ([]string, error)
	}{{nameBwrap, v.bwrap}, {nameRunc, v.runc}, {"docker", v.docker}} {
		p := &plain{name: one.name}
		argv, err := one.make(ctx)
		if err == nil {
			p.argv = argv
			_, err = v.whole(p)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			p.skipped = err.Error()
		} else {
			there++
		}
		v.commands = append(v.commands, p)
	}
	if there < 2 {
		var reasons []string
		for _, p := range v.commands {
			if p.skipped != "" {
				reasons = append(reasons, p.name+": "+p.skipped)
			}
		}
		return &sandbox.Error{Class: sandbox.Unavailable, Op: "lab", Reason: "there are no two systems whose ratio could be checked: " + strings.Join(reasons, "; "), Remedy: "install bubblewrap and runc, and be root"}
	}
	return nil
}

func (v *verification) bwrap(ctx context.Context) ([]string, error) {
	c, _, err := v.openPeer(ctx, nameBwrap)
	if err != nil {
		return nil, err
	}
	b := c.(bwrap)
	return append([]string{b.path}, b.args(firstPath)...), nil
}

func (v *verification) runc(ctx context.Context) ([]string, error) {
	c, _, err := v.openPeer(ctx, nameRunc)
	if err != nil {
		return nil, err
	}
	o := c.(oci)
	// A container that has ended leaves its name to the next.
	return append([]string{o.path}, o.args("run", noKeyring, "--bundle", o.first, o.id())...), nil
}

// docker gives the daemon an image of the same root file system.
func (v *verification) docker(ctx context.Context) ([]string, error) {
	path, err := exec.LookPath("docker")
	if err != nil {
		return nil, err
	}
	name := filepath.Join(v.dir, "root.tar")
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(file)
	if err := errors.Join(archive.AddFS(os.DirFS(v.root)), archive.Close(), file.Close()); err != nil {
		return nil, err
	}
	image := fmt.Sprintf("aether-lab-check:%d", os.Getpid())
	if said, err := exec.CommandContext(ctx, path, "import", name, image).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("docker import: %w: %.300s", err, strings.TrimSpace(string(said)))
	}
	v.undo = func() error { return exec.Command(path, "image", "rm", "--force", image).Run() }
	return []string{path, "run", "--rm", "--network", "none", "--log-driver", "none", image, firstPath}, nil
}

// whole runs a command from its start to its end.
func (v *verification) whole(p *plain) (time.Duration, error) {
	start := time.Now()
	s, _, err := v.launcher.firstByte(p.argv[0], p.argv[1:]...)
	if err != nil {
		return 0, err
	}
	err = s.wait()
	return time.Since(start), err
}

// measure has both take turns.
func (v *verification) measure(ctx context.Context, rounds int) error {
	here := slices.DeleteFunc(slices.Clone(v.commands), func(p *plain) bool { return p.skipped != "" })
	contenders := make([]lab.Contender, len(here))
	for i, p := range here {
		contenders[i] = lab.Contender{Name: p.name, Take: func(context.Context) (lab.Sample, error) {
			took, err := v.whole(p)
			return lab.Sample{First: took}, err
		}}
	}
	turns := (rounds + checkTurn - 1) / checkTurn
	for turn := range turns {
		v.say.Tick("check: turn %d of %d", turn+1, turns)
		samples, err := lab.Rounds{Count: checkTurn, Warmup: 1, Breath: breath}.Measure(ctx, contenders)
		if err != nil {
			return err
		}
		for i, p := range here {
			for _, s := range samples[i] {
				p.ours = append(p.ours, s.First)
			}
			theirs, err := v.time(ctx, p.argv, checkTurn)
			if err != nil {
				return fmt.Errorf("%s of %s: %w", timer, p.name, err)
			}
			p.theirs = append(p.theirs, theirs...)
		}
	}
	return nil
}

// time has the other program time a command, with a pipe to write to, as the lab gives it.
func (v *verification) time(ctx context.Context, argv []string, runs int) (times []time.Duration, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out := filepath.Join(v.dir, "times.json")
	// Nothing in an argument of ours needs to be quoted.
	if err := v.launcher.run(v.timer, "--shell=none", "--style=none", "--warmup=1", fmt.Sprint("--runs=", runs), "--output=pipe",
		"--export-json="+out, strings.Join(argv, " ")); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(out)
	if err != nil {
		return nil, err
	}
	var said struct {
		Results []struct{ Times []float64 }
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return nil, fmt.Errorf("%s: %w", out, err)
	}
	if len(said.Results) != 1 || len(said.Results[0].Times) != runs {
		return nil, fmt.Errorf("%s: %d results in place of %d times", out, len(said.Results), runs)
	}
	for _, seconds := range said.Results[0].Times {
		times = append(times, time.Duration(seconds*float64(time.Second)))
	}
	return times, nil
}
