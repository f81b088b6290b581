package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"aether/lab"
)

// bwrap is bubblewrap with every namespace that it knows.
type bwrap struct {
	launcher *launcher
	path     string
	root     string
}

// infoFd is the first descriptor that a command gets besides the standard ones.
const infoFd = 3

func (b bwrap) args(program string, more ...string) []string {
	args := append(more, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
		"--ro-bind", b.root, "/", "--proc", "/proc", "--dev", "/dev")
	return append(args, program)
}

func (b bwrap) cold(context.Context) (lab.Sample, error) {
	s, sample, err := b.launcher.firstByte(b.path, b.args(firstPath)...)
	if err != nil {
		return sample, err
	}
	return sample, s.wait()
}

// live also learns the number of bwrap's child, which is what can be entered.
func (b bwrap) live(context.Context) (living, error) {
	out, err := newOutput()
	if err != nil {
		return nil, err
	}
	info, theirs, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, out.close())
	}
	defer info.Close()
	cmd := b.launcher.command(b.path, b.args(stayPath, "--info-fd", strconv.Itoa(infoFd)))
	cmd.Stdout, cmd.ExtraFiles = out.write, []*os.File{theirs}
	s, _, err := (&started{cmd: cmd, out: out, log: b.launcher.log}).await(b.launcher)
	theirs.Close()
	if err != nil {
		return nil, err
	}
	var told struct {
		Child int `json:"child-pid"`
	}
	if err := json.NewDecoder(info).Decode(&told); err != nil {
		return nil, errors.Join(fmt.Errorf("bwrap: its information: %w", err), s.kill())
	}
	return bwrapLiving{b, s, told.Child}, nil
}

func (b bwrap) close() error { return nil }

type bwrapLiving struct {
	bwrap
	started *started
	child   int
}

// exec uses nsenter, for bwrap itself cannot start a second program.
func (l bwrapLiving) exec(context.Context) (lab.Sample, error) {
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return lab.Sample{}, err
	}
	s, sample, err := l.launcher.firstByte(nsenter, "--target", strconv.Itoa(l.child), "--all", "--preserve-credentials", firstPath)
	if err != nil {
		return sample, err
	}
	return sample, s.wait()
}

func (l bwrapLiving) end() error { return l.started.kill() }
