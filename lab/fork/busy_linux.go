package fork

import (
	"context"
	"errors"
	"os/exec"
	"runtime"

	"aether/lab"
)

// busyProgram keeps a processor busy until its parent ends.
const busyProgram = `
import os
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(100000): pass
`

// measureBusy forks on a crowded host: each processor has a neighbour that never rests,
// so that every hand-over from one process to another waits for its turn. A plain fork
// beside it says what that costs anybody.
func (b *bench) measureBusy(ctx context.Context, r *Report) (err error) {
	python, err := lookPath("python3")
	if err != nil {
		return err
	}
	s, err := b.source(ctx, python, "-c", pythonWithModules())
	if err != nil {
		return err
	}
	turns := []lab.Contender{{Name: rowFork, Take: s.first}, b.zygoteTurn(ctx, python)}
	idle, err := crowdHost(python, runtime.NumCPU())
	defer func() { err = errors.Join(err, idle()) }()
	if err != nil {
		return err
	}
	b.say.Say("beside busy neighbours: %d rounds", b.opts.Rounds)
	r.Busy, err = b.rounds().Rows(ctx, turns)
	return err
}

// crowdHost starts neighbours, which idle ends, also after an error.
func crowdHost(python string, count int) (idle func() error, err error) {
	var all []*exec.Cmd
	idle = func() (err error) {
		for _, cmd := range all {
			err = errors.Join(err, cmd.Process.Kill())
			_ = cmd.Wait() // killed is what it is to be
		}
		return err
	}
	for range count {
		cmd := exec.Command(python, "-c", busyProgram)
		if err := cmd.Start(); err != nil {
			return idle, err
		}
		all = append(all, cmd)
	}
	return idle, nil
}
