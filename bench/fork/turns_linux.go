package fork

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"aether/engine"
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
func (b *bench) turns(ctx context.Context) (turns []turn, err error) {
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
	turns = append(forks, template, turn{name: rowFresh, take: b.fresh(command...)}, b.bwrapTurn(ctx, command), b.zygoteTurn(ctx, python))
	nodes, err := b.nodeTurns(ctx)
	if err != nil {
		return nil, err
	}
	return append(turns, append(nodes, append(b.restoreTurns(ctx, command), b.criuTurn(ctx, command))...)...), nil
}

func (b *bench) forkTurns(ctx context.Context, python string) (turns []turn, err error) {
	free, err := available()
	if err != nil {
		return nil, err
	}
	for _, c := range []struct {
		row, program string
		mib          int64
	}{{rowFork, pythonWithModules(), 0}, {rowFork256, pythonWithData(256), 256}, {rowFork1024, pythonWithData(1024), 1024}} {
		if need := 3 * c.mib; free>>20 < need {
			turns = append(turns, turn{name: c.row, skipped: fmt.Sprintf("%d MiB of memory are available, and %d are wanted for it", free>>20, need)})
			continue
		}
		s, err := b.source(ctx, python, "-c", c.program)
		if err != nil {
			return nil, err
		}
		turns = append(turns, turn{name: c.row, take: s.first, forks: true})
	}
	return turns, nil
}

// templateTurn forks a template of the same program, which stands still.
func (b *bench) templateTurn(ctx context.Context, command []string) (turn, error) {
	t, err := b.engine.Prepare(ctx, b.driver, engine.Recipe{Name: templateName, Command: command, Ready: engine.Ready{Line: primed}}, nil)
	if err != nil {
		return turn{}, err
	}
	return turn{name: rowTemplate, take: func(ctx context.Context) (sample, error) {
		w := startWatch()
		children, err := t.Fork(ctx, sandbox.Spec{})
		w.lap("fork")
		if err != nil {
			return sample{}, err
		}
		return reply(ctx, w, children[0])
	}}, nil
}

// templateName is that of the template that the pool is filled from too.
const templateName = "modules"

// reply has a child answer and ends it.
func reply(ctx context.Context, w *watch, child *engine.Child) (_ sample, err error) {
	defer func() { err = errors.Join(err, child.Destroy(ctx)) }()
	streams, err := child.Streams(ctx)
	w.lap("connect")
	if err != nil {
		return sample{}, err
	}
	err = within(ctx, func() { streams.Close() }, func() error { return exchange(streams.Stdin, bufio.NewReader(streams.Stdout)) })
	w.lap("reply")
	return w.done(0), err
}

func (b *bench) nodeTurns(ctx context.Context) ([]turn, error) {
	node, err := lookPath("node")
	if err != nil {
		return []turn{{name: rowForkNode, skipped: err.Error()}, {name: rowFreshNode, skipped: err.Error()}}, nil
	}
	command := []string{node, "-e", nodeProgram}
	s, err := b.source(ctx, command...)
	if err != nil {
		return nil, err
	}
	fork := turn{name: rowForkNode, take: s.first, forks: true}
	if _, err := fork.takeBounded(ctx); err != nil {
		fork = turn{name: rowForkNode, skipped: err.Error()}
	}
	return []turn{fork, {name: rowFreshNode, take: b.fresh(command...)}}, nil
}
