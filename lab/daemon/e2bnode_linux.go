package daemon

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"aether/lab"
)

// e2bVersion is that of the official client which is measured.
const e2bVersion = "2.51.0"

//go:embed e2b.mjs
var e2bProgram []byte

// openNode starts the official client in a process of its own, which undo ends; where it
// cannot be installed, the contender is skipped with the reason.
func (b *bench) openNode(ctx context.Context) (c lab.Contender, undo func() error) {
	nothing := func() error { return nil }
	dir, err := os.MkdirTemp("", "aether-lab-e2b-")
	if err != nil {
		return lab.Skip(rowE2BNode, err), nothing
	}
	undo = func() error { return os.RemoveAll(dir) }
	install := exec.CommandContext(ctx, "npm", "install", "--silent", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "e2b@"+e2bVersion)
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		return lab.Skip(rowE2BNode, fmt.Errorf("npm install e2b: %w: %.200s", err, out)), undo
	}
	program := filepath.Join(dir, "life.mjs")
	if err := os.WriteFile(program, e2bProgram, 0o644); err != nil {
		return lab.Skip(rowE2BNode, err), undo
	}
	c, end, err := b.startNode(program)
	if err != nil {
		return lab.Skip(rowE2BNode, err), undo
	}
	return b.rounds.Try(ctx, c), func() error { return errors.Join(end(), os.RemoveAll(dir)) }
}

// startNode has a process that lives a life for each line, and says how long its parts took.
func (b *bench) startNode(program string) (c lab.Contender, end func() error, err error) {
	cmd := exec.Command("node", program)
	url := "http://" + b.server.address
	cmd.Env = append(os.Environ(), "E2B_API_URL="+url, "E2B_SANDBOX_URL="+url, "E2B_API_KEY="+b.server.key)
	to, err := cmd.StdinPipe()
	if err != nil {
		return c, nil, err
	}
	from, err := cmd.StdoutPipe()
	if err != nil {
		return c, nil, err
	}
	if err := cmd.Start(); err != nil {
		return c, nil, err
	}
	lines := bufio.NewReader(from)
	c = lab.Contender{Name: rowE2BNode, Take: func(context.Context) (lab.Sample, error) { return nodeLife(to, lines) }}
	return c, func() error { return errors.Join(to.Close(), cmd.Wait()) }, nil
}

func nodeLife(to io.Writer, lines *bufio.Reader) (lab.Sample, error) {
	if _, err := fmt.Fprintln(to); err != nil {
		return lab.Sample{}, err
	}
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return lab.Sample{}, err
	}
	var took struct {
		Create, Command, End float64 // ms
		Error                string
	}
	if err := json.Unmarshal(line, &took); err != nil || took.Error != "" {
		return lab.Sample{}, fmt.Errorf("the client: %s: %w", took.Error, err)
	}
	var sample lab.Sample
	for _, part := range []struct {
		name string
		ms   float64
	}{{"create", took.Create}, {"command", took.Command}, {"end", took.End}} {
		lap := lab.Lap{Name: part.name, Took: time.Duration(part.ms * float64(time.Millisecond))}
		sample.First += lap.Took
		sample.Laps = append(sample.Laps, lap)
	}
	return sample, nil
}
