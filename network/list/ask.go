package list

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"aether/internal/bounded"
)

const (
	maxSaid = 4 << 20
	// lastWords is how long what a tool leaves behind may hold its output open. It is long:
	// this program may be held up for a while, and an answer that was not read by then is lost.
	lastWords = 2 * time.Second
)

// asker runs tools, with the environment of whoever asks and each in an empty directory
// of its own, so that the settings of no project are read: a list is the host's.
type asker struct {
	env     environment
	scratch string
	timeout time.Duration
}

// answer is what one tool has said.
type answer struct {
	sites   []site
	notes   []string
	skipped string
	// unsaid is what the tool was asked and did not say.
	unsaid []string
}

func (a *answer) note(format string, args ...any) {
	a.notes = append(a.notes, fmt.Sprintf(format, args...))
}

// question is a tool with its arguments.
type question struct {
	program string
	args    []string
	// env is what is set or, without an equals sign, removed for this question alone.
	env []string
	// files are put into the directory that it runs in, by name.
	files map[string]string
}

// said is what a tool has written.
type said struct{ stdout, stderr []byte }

// find gives the path of the first of some programs that there is.
func (a *asker) find(names ...string) (string, bool) {
	for _, name := range names {
		for _, dir := range filepath.SplitList(a.env.get("PATH")) {
			if !filepath.IsAbs(dir) {
				continue // that of nobody in particular
			}
			path := filepath.Join(dir, name)
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
				return path, true
			}
		}
	}
	return "", false
}

// room makes a directory with nothing but some files in it.
func (a *asker) room(files map[string]string) (dir string, err error) {
	if dir, err = os.MkdirTemp(a.scratch, ""); err != nil {
		return "", err
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return "", err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// plantable gives a directory above those of tools into which others can put files, or
// nothing. Tools that look for settings in all directories above would find theirs.
func (a *asker) plantable() string {
	for dir := filepath.Dir(a.scratch); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm()&0o022 != 0 {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
	}
}

// ask runs a tool. What it has written is given also where it fails: some are asked what
// they would do by having them fail. Errors have nothing of what it wrote, which may be
// secret.
func (a *asker) ask(ctx context.Context, q question) (said, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	dir, err := a.room(q.files)
	if err != nil {
		return said{}, err
	}
	name := filepath.Base(q.program)
	stdout := &bounded.Output{What: "what " + name + " says", Max: maxSaid}
	stderr := &bounded.Output{What: "what " + name + " complains about", Max: maxSaid}
	cmd := exec.CommandContext(ctx, q.program, q.args...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = a.env.with(q.env...), dir, stdout, stderr, lastWords
	endTogether(cmd)
	err = cmd.Run()
	if ctx.Err() != nil {
		err = fmt.Errorf("it did not answer within %v", a.timeout)
	}
	return said{stdout.Bytes(), stderr.Bytes()}, err
}

// failed says that a tool ended by itself, with a status that says so.
func failed(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.Exited()
}
