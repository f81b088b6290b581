package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"aether/lab"
)

// run is aether run with arguments. What its parts take is told by a run after it,
// with --json, which is not part of the time.
func (b *bench) run(name string, flags []string, rest ...string) lab.Contender {
	args := append(append([]string{"run"}, flags...), rest...)
	telling := append(append([]string{"run", "--json"}, flags...), rest...)
	return lab.Contender{Name: name, Take: func(ctx context.Context) (lab.Sample, error) {
		r, err := b.exec(ctx, nil, b.program, args...)
		if err != nil {
			return lab.Sample{}, err
		}
		told, err := b.exec(ctx, nil, b.program, telling...)
		if err != nil {
			return lab.Sample{}, err
		}
		laps, err := readTimes(told)
		return lab.Sample{First: r.took, Laps: laps}, err
	}}
}

// readTimes are the parts of a run as it tells them itself.
func readTimes(r ran) ([]lab.Lap, error) {
	var answer struct {
		Times struct {
			Fork    float64 `json:"fork_ms"`
			Created float64 `json:"created_ms"`
			Exit    float64 `json:"exit_ms"`
		} `json:"times"`
	}
	if err := json.Unmarshal([]byte(r.stdout), &answer); err != nil {
		return nil, fmt.Errorf("aether run --json: %w", err)
	}
	t := answer.Times
	if t.Created <= 0 || t.Exit < t.Created {
		return nil, fmt.Errorf("aether run --json tells of no times: %.200s", r.stdout)
	}
	lap := func(name string, ms float64) lab.Lap {
		return lab.Lap{Name: name, Took: time.Duration(ms * float64(time.Millisecond))}
	}
	made := []lab.Lap{lap("sandbox", t.Created)}
	if t.Fork > 0 {
		made = []lab.Lap{lap("fork", t.Fork), lap("way to it", t.Created-t.Fork)}
	}
	return append(made, lap("command", t.Exit-t.Created), lap("the program's start and end", float64(r.took)/1e6-t.Exit)), nil
}

// forked is a piece of code in a fork of a python that was prepared before.
func (b *bench) forked(ctx context.Context) lab.Contender {
	if _, err := exec.LookPath("python3"); err != nil {
		return lab.Skip(rowTemplate, err)
	}
	if err := b.serve(ctx); err != nil {
		return lab.Skip(rowTemplate, err)
	}
	if _, err := b.exec(ctx, nil, b.program, "template", "prepare", template, "--code", "python", "/dev/null"); err != nil {
		return lab.Skip(rowTemplate, err)
	}
	return b.run(rowTemplate, []string{"--template", template, "-c", code})
}

// serve runs the daemon that holds the template, until the end of the bench. One that
// aether starts by itself would outlive that.
func (b *bench) serve(ctx context.Context) error {
	daemon := exec.Command(b.program, "serve")
	daemon.Env = b.environ()
	if err := daemon.Start(); err != nil {
		return err
	}
	b.undo = append(b.undo, func() error { return errors.Join(daemon.Process.Signal(os.Interrupt), daemon.Wait()) })
	socket := filepath.Join(b.dir, "state", "run", "daemon", "socket")
	for {
		if _, err := os.Stat(socket); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}
