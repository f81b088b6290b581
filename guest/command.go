//go:build linux

package guest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"

	"aether/internal/host/inroot"
	"aether/sandbox"

	pb "aether/guest/wire/process"
)

// command turns a request into a Command, all but its files.
func (c *caller) command(req *pb.StartRequest) (*Command, error) {
	want := req.GetProcess()
	if want.GetCmd() == "" {
		return nil, sandbox.Invalidf("process.cmd", "it is empty")
	}
	env, err := c.environ(want.GetEnvs(), req.GetPty() != nil)
	if err != nil {
		return nil, err
	}
	dir, err := c.workingDir(want.GetCwd())
	if err != nil {
		return nil, err
	}
	for i, arg := range want.GetArgs() {
		if strings.ContainsRune(arg, 0) {
			return nil, sandbox.Invalidf("process.args", "argument %d holds a zero byte", i)
		}
	}
	program, err := lookCommand(c.root, want.GetCmd(), dir, env["PATH"])
	if err != nil {
		return nil, cmp.Or(c.enters(dir), err)
	}
	return &Command{Path: program, Args: append([]string{want.GetCmd()}, want.GetArgs()...), Env: flatten(env), Dir: dir,
		UID: c.uid, GID: c.gid, Groups: c.groups}, nil
}

// environ is the user's environment, the service's and the request's, the later
// overriding the earlier.
func (c *caller) environ(extra map[string]string, terminal bool) (map[string]string, error) {
	env := map[string]string{"PATH": defaultPath, "HOME": c.home, "USER": c.name, "LOGNAME": c.name, "SHELL": c.shell}
	if terminal {
		env["TERM"] = "xterm"
	}
	maps.Copy(env, c.env)
	for name, value := range extra {
		if err := sandbox.ValidEnv(name, value); err != nil {
			return nil, err
		}
		env[name] = value
	}
	return env, nil
}

func flatten(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}

// workingDir is where a command begins. Whether that can be entered is left to the kernel.
func (c *caller) workingDir(want string) (string, error) {
	dir, err := c.homePath(want, cmp.Or(c.workDir, c.home))
	if err != nil || want != "" || c.workDir != "" || dir == "/" {
		return dir, err
	}
	if _, err := c.root.Stat(dir); errors.Is(err, syscall.ENOENT) {
		return "/", nil // nobody chose this directory: a user without a home has none
	}
	return dir, nil
}

// enters says why a directory cannot be entered, for a command that could not be started.
func (c *caller) enters(dir string) error {
	info, err := c.root.Stat(dir)
	if err != nil {
		return &sandbox.Error{Class: sandbox.Invalid, Field: "process.cwd", Reason: fmt.Sprintf("%q cannot be entered", clip(dir)), Err: err}
	}
	if !info.Mode.IsDir() {
		return sandbox.Invalidf("process.cwd", "%q is not a directory", clip(dir))
	}
	return nil
}

// lookCommand finds a program as execvp would. Whether the user may run it is left to the
// kernel, and so is whether there is one at a path.
func lookCommand(root *inroot.Root, cmd, dir, search string) (string, error) {
	if strings.Contains(cmd, "/") {
		if !path.IsAbs(cmd) {
			cmd = path.Join(dir, cmd)
		}
		return cmd, nil
	}
	missing := &sandbox.Error{Class: sandbox.NotFound, Field: "process.cmd",
		Reason: fmt.Sprintf("%q is not in PATH", clip(cmd)), Err: syscall.ENOENT}
	var denied error
	for _, place := range strings.Split(search, ":") {
		if !path.IsAbs(place) {
			place = path.Join(dir, place)
		}
		program := path.Join(place, cmd)
		switch err := executable(root, program); {
		case err == nil:
			return program, nil
		case errors.Is(err, syscall.EACCES):
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", missing
}

func executable(root *inroot.Root, program string) error {
	info, err := root.Stat(program)
	if err == nil && (!info.Mode.IsRegular() || info.Mode.Perm()&0o111 == 0) {
		err = syscall.EACCES
	}
	if err == nil {
		return nil
	}
	class, reason := sandbox.NotFound, "does not exist"
	if !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ENOTDIR) {
		class, reason = sandbox.Denied, "cannot be run"
	}
	return &sandbox.Error{Class: class, Field: "process.cmd", Reason: fmt.Sprintf("%q %s", clip(program), reason), Err: err}
}
