package command

import (
	"fmt"
	"os"
	"path/filepath"

	"aether/internal/host/cgroup"
	"aether/internal/host/launch"
)

// ready is what the shell does before it becomes the program. Its arguments are
// the stage's directory and the program with all of its own, so that no text of a
// caller is ever taken for a command; descriptor 3 has the configuration.
const ready = `set -e
cd "$1"
shift
cat <&3 >` + ConfigFile + `
exec 3<&-
`

func (e *engine) stage(p launch.Program) (Stage, error) {
	group, err := directory(p.Group)
	s := Stage{Program: e.tools.program, Dir: e.stageDir(), Root: e.host.Root(), Guest: e.host.Shown(0),
		Shared: e.host.Shared(), Single: e.host.Single, Group: group}
	if e.system.Seals {
		s.Program = fmt.Sprintf("/proc/self/fd/%d", programFd)
	}
	for i := range p.Tree.Shown[1:] {
		s.Shown = append(s.Shown, e.host.Shown(i+1))
	}
	if p.Tree.Aside {
		for i := range p.Tree.Mounts {
			s.Mounts = append(s.Mounts, e.host.Aside(i))
		}
	}
	return s, err
}

// directory is one of those of a group, of version 1 where both are in use, or
// empty where there is none.
func directory(attach cgroup.Attach) (string, error) {
	if len(attach.Files) > 0 {
		file, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", attach.Files[0]))
		return filepath.Dir(file), err
	}
	if attach.Into < 0 {
		return "", nil
	}
	return os.Readlink(fmt.Sprintf("/proc/self/fd/%d", attach.Into))
}

// stageDir is what launch mounts: the root is below it.
func (e *engine) stageDir() string { return filepath.Dir(e.host.Root()) }

func (e *engine) script(c Command) []string {
	text := ready + c.Prepare + "\nexec \"$@\"\n"
	return append([]string{"sh", "-c", text, "sh", e.stageDir()}, c.Args...)
}

// environment has a PATH for the shell's tools, and nothing else of this program's.
func (e *engine) environment(c Command) []string {
	return append([]string{"PATH=" + os.Getenv("PATH")}, c.Env...)
}
