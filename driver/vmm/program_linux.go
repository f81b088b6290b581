package vmm

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"aether/internal/bounded"
	"aether/internal/host/proctree"
	"aether/sandbox"
)

// program is a monitor on this host.
type program struct {
	path    string // absolute, and no link
	version string
}

const (
	// probeTime and openTime are how long a program may take to say its version: a
	// probe has two seconds, and whoever wants a machine has more.
	probeTime = 1500 * time.Millisecond
	openTime  = 15 * time.Second
	// pipePart is the part of that time for which what the program has started may keep its
	// output. It is as long as can be: this program may be held up for a while, and what it
	// has not read by then is lost.
	pipePart = 2
	// maxVersion bounds what it says.
	maxVersion = 4 << 10
)

// findProgram finds the monitor and asks it what it is.
func findProgram(ctx context.Context, system System, named string, patience time.Duration) (program, error) {
	p, err := lookProgram(system, named)
	if err != nil {
		return p, err
	}
	said, err := versionOf(ctx, p.path, patience)
	if err != nil {
		return program{}, &sandbox.Error{Class: sandbox.Unavailable, Reason: p.path + " does not run", Remedy: system.Remedy, Err: err}
	}
	p.version, err = system.Version(said)
	return p, err
}

func lookProgram(system System, named string) (program, error) {
	if named == "" && system.Find != nil {
		path, err := system.Find()
		if err != nil {
			return program{}, err
		}
		named = path
	}
	if named == "" {
		named = system.Program
	}
	found, err := exec.LookPath(named)
	if err == nil {
		found, err = filepath.EvalSymlinks(found)
	}
	if err == nil {
		found, err = filepath.Abs(found)
	}
	if err != nil {
		return program{}, &sandbox.Error{Class: sandbox.Unavailable, Reason: named + " is not installed", Remedy: system.Remedy}
	}
	return program{path: found}, nil
}

// versions are what programs have said, by their files: drivers are asked often
// whether they can run.
var versions sync.Map

// programFile is a program as it was when it was asked, or started.
type programFile struct {
	path          string
	device, inode uint64
	size          int64
	changed       syscall.Timespec
}

func fileOf(path string) (programFile, error) {
	info, err := os.Stat(path)
	if err != nil {
		return programFile{}, err
	}
	stat := info.Sys().(*syscall.Stat_t)
	return programFile{path, uint64(stat.Dev), stat.Ino, stat.Size, stat.Ctim}, nil
}

func versionOf(ctx context.Context, path string, patience time.Duration) (string, error) {
	key, err := fileOf(path)
	if err != nil {
		return "", err
	}
	if said, ok := versions.Load(key); ok {
		return said.(string), nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	said, err := askVersion(ctx, path, patience/pipePart)
	if err == nil {
		versions.Store(key, said)
	}
	return said, err
}

// askVersion reads the beginning of what a program says to --version, whatever the
// program is. Nothing that it started is left.
func askVersion(ctx context.Context, path string, pipeTime time.Duration) (string, error) {
	said := &bounded.Output{What: "what " + path + " says to --version", Max: maxVersion}
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Dir, cmd.Env, cmd.Stdout = "/", environment, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = pipeTime
	killAll := func() error { return proctree.KillGroup(cmd.Process.Pid) }
	cmd.Cancel = killAll
	err := cmd.Run()
	if cmd.Process != nil {
		if failed := killAll(); failed != nil && !errors.Is(failed, os.ErrProcessDone) {
			err = errors.Join(err, failed)
		}
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return said.String(), err
}
