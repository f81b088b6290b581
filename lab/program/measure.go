package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"aether/lab"
)

const (
	warmup   = 3
	breath   = 10 * time.Millisecond
	patience = time.Minute
	// template is the name of the template that is forked, and code what its
	// interpreter runs.
	template, code = "lab", "6*7"
)

// Measure runs the whole benchmark.
func Measure(ctx context.Context, opts Options, say *lab.Progress) (_ Report, err error) {
	b, err := newBench(opts)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	say.Say("whole runs: preparing")
	rounds := lab.Rounds{Count: opts.Rounds, Warmup: warmup, Breath: breath, Patience: patience}
	contenders := []lab.Contender{b.empty(ctx), b.plain(rowVersion, "version"), rounds.Try(ctx, b.bwrap()),
		b.run(rowRun, nil, "--", "true"), b.forked(ctx), b.initialisation()}
	say.Say("whole runs: %d rounds of %d", opts.Rounds, len(contenders))
	rows, err := rounds.Rows(ctx, contenders)
	if err != nil {
		return Report{}, err
	}
	return newReport(rows), nil
}

// bench is one run, with a place of its own for what aether keeps.
type bench struct {
	program, dir string
	undo         []func() error
}

func newBench(opts Options) (*bench, error) {
	dir, err := os.MkdirTemp("", "aether-lab-")
	if err != nil {
		return nil, err
	}
	b := &bench{program: opts.Program, dir: dir}
	b.undo = append(b.undo, func() error { return os.RemoveAll(dir) })
	// Ids of sandboxes have to reach what is in it.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *bench) close() (err error) {
	for i := len(b.undo) - 1; i >= 0; i-- {
		err = errors.Join(err, b.undo[i]())
	}
	return err
}

// environ has aether keep everything in the place of the bench.
func (b *bench) environ() []string {
	return append(os.Environ(), "AETHER_STATE_DIR="+filepath.Join(b.dir, "state"))
}

// ran is a run of a program that succeeded.
type ran struct {
	took           time.Duration
	stdout, stderr string
}

// exec runs a program to its end.
func (b *bench) exec(ctx context.Context, env []string, name string, args ...string) (ran, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(b.environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	start := time.Now()
	err := cmd.Run()
	r := ran{time.Since(start), stdout.String(), stderr.String()}
	if err != nil {
		const enough = 400
		said := strings.TrimSpace(r.stderr)
		return r, fmt.Errorf("%s: %w: %s", cmd, err, said[max(0, len(said)-enough):])
	}
	return r, nil
}

// alone is a contender of which only the whole time is known.
func (b *bench) alone(name, program string, args ...string) lab.Contender {
	return lab.Contender{Name: name, Take: func(ctx context.Context) (lab.Sample, error) {
		r, err := b.exec(ctx, nil, program, args...)
		return lab.Sample{First: r.took}, err
	}}
}

func (b *bench) plain(name string, args ...string) lab.Contender {
	return b.alone(name, b.program, args...)
}

// emptyProgram does nothing at all.
const emptyProgram = "package main\n\nfunc main() {}\n"

// empty is what any Go program takes.
func (b *bench) empty(ctx context.Context) lab.Contender {
	source, built := filepath.Join(b.dir, "empty.go"), filepath.Join(b.dir, "empty")
	if _, err := exec.LookPath("go"); err != nil {
		return lab.Skip(rowEmpty, errors.New("there is no go tool in PATH to build one"))
	}
	if err := os.WriteFile(source, []byte(emptyProgram), 0o644); err != nil {
		return lab.Skip(rowEmpty, err)
	}
	if _, err := b.exec(ctx, []string{"CGO_ENABLED=0", "GOFLAGS="}, "go", "build", "-ldflags", "-s -w", "-o", built, source); err != nil {
		return lab.Skip(rowEmpty, err)
	}
	return b.alone(rowEmpty, built)
}

// bwrap shows the host's system, read-only, as a cell does.
func (b *bench) bwrap() lab.Contender {
	path, err := exec.LookPath("bwrap")
	if err != nil {
		return lab.Skip(rowBwrap, err)
	}
	return b.alone(rowBwrap, path, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
		"--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "true")
}

// initialisation is what the runtime says of the packages in aether version.
func (b *bench) initialisation() lab.Contender {
	return lab.Contender{Name: rowInit, Take: func(ctx context.Context) (lab.Sample, error) {
		r, err := b.exec(ctx, []string{"GODEBUG=inittrace=1"}, b.program, "version")
		if err != nil {
			return lab.Sample{}, err
		}
		return readInit(r.stderr)
	}}
}
