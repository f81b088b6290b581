package fork

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"aether/engine"
	"aether/lab"
	"aether/lab/conversation"
	"aether/sandbox"
)

// searchPath is that of a sandbox with the host's system, so that all rows run the
// same interpreters.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// lookPath finds a program of the host's system.
func lookPath(name string) (string, error) {
	for _, dir := range filepath.SplitList(searchPath) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("this host has no %s", name)
}

// turns prepares every row that can be measured here; the others keep their
// reason.
func (b *bench) turns(ctx context.Context) (turns []lab.Contender, err error) {
	python, err := lookPath("python3")
	if err != nil {
		return nil, err
	}
	command := []string{python, "-c", pythonWithModules()}
	template, err := b.templateTurn(ctx, command)
	if err != nil {
		return nil, err
	}
	forks, err := b.forkTurns(ctx, python)
	if err != nil {
		return nil, err
	}
	turns = append(forks, template, lab.Contender{Name: rowFresh, Take: b.fresh(command...)}, b.bwrapTurn(ctx, command), b.zygoteTurn(ctx, python))
	nodes, err := b.nodeTurns(ctx)
	if err != nil {
		return nil, err
	}
	return append(turns, append(nodes, append(b.restoreTurns(ctx, command), b.criuTurn(ctx, command))...)...), nil
}

func (b *bench) forkTurns(ctx context.Context, python string) (turns []lab.Contender, err error) {
	host, err := lab.ReadMemory()
	if err != nil {
		return nil, err
	}
	free := host.Available() >> 10
	for _, c := range []struct {
		row, program string
		mib          int64
	}{{rowFork, pythonWithModules(), 0}, {rowFork256, pythonWithData(256), 256}, {rowFork1024, pythonWithData(1024), 1024}} {
		if need := 3 * c.mib; free < need {
			turns = append(turns, lab.Skip(c.row, fmt.Errorf("%d MiB of memory are available, and %d are wanted for it", free, need)))
			continue
		}
		s, err := b.source(ctx, python, "-c", c.program)
		if err != nil {
			return nil, err
		}
		turns = append(turns, lab.Contender{Name: c.row, Take: s.first})
	}
	return turns, nil
}

// templateTurn forks a template of the same program, which stands still.
func (b *bench) templateTurn(ctx context.Context, command []string) (lab.Contender, error) {
	t, err := b.engine.Prepare(ctx, b.driver, engine.Recipe{Name: templateName, Command: command, Ready: engine.Ready{Line: primed}}, nil)
	if err != nil {
		return lab.Contender{}, err
	}
	return lab.Contender{Name: rowTemplate, Take: func(ctx context.Context) (lab.Sample, error) {
		w := lab.StartWatch()
		children, err := t.Fork(ctx, sandbox.Spec{})
		w.Lap("fork")
		if err != nil {
			return lab.Sample{}, err
		}
		return reply(ctx, w, children[0])
	}}, nil
}

// templateName is that of the template that the pool is filled from too.
const templateName = "modules"

// reply has a child answer and ends it.
func reply(ctx context.Context, w *lab.Watch, child *engine.Child) (_ lab.Sample, err error) {
	defer func() { err = errors.Join(err, child.Destroy(ctx)) }()
	streams, err := child.Streams(ctx)
	w.Lap("connect")
	if err != nil {
		return lab.Sample{}, err
	}
	err = conversation.Within(ctx, func() { streams.Close() }, func() error { return exchange(streams.Stdin, bufio.NewReader(streams.Stdout)) })
	w.Lap("reply")
	return w.Done(), err
}

func (b *bench) nodeTurns(ctx context.Context) ([]lab.Contender, error) {
	node, err := lookPath("node")
	if err != nil {
		return []lab.Contender{lab.Skip(rowForkNode, err), lab.Skip(rowFreshNode, err)}, nil
	}
	command := []string{node, "-e", nodeProgram}
	s, err := b.source(ctx, command...)
	if err != nil {
		return nil, err
	}
	fork := b.rounds().Try(ctx, lab.Contender{Name: rowForkNode, Take: s.first})
	return []lab.Contender{fork, {Name: rowFreshNode, Take: b.fresh(command...)}}, nil
}
