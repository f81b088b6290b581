package engine

import (
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strings"

	"aether/guest"
	"aether/sandbox"
)

// Step is one thing that is done to the files of a sandbox before it is forked: files are
// put in place, or a command is run to its end.
type Step struct {
	// Name is how it is told of; empty is its command.
	Name string `json:"name,omitempty"`
	// Command is run as User, in Dir and with Env besides the defaults of the Spec.
	Command []string          `json:"command,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Dir     string            `json:"dir,omitempty"`
	User    string            `json:"user,omitempty"`
	// Stated says that User, Dir and Env are all that it runs with besides the image's own:
	// the defaults of the Spec are not part of what names the layer that it leaves. Where
	// layers are kept and all steps are stated, variables of the Spec are not added either.
	Stated bool `json:"stated,omitempty"`
	// Files are put in place instead of a command. Those who prepare a template keep the
	// archive before: see KeepArchive.
	Files Files `json:"files,omitzero"`
}

// Files are a part of an archive, and where it goes.
type Files struct {
	// Archive is the name of one that the tenant has kept. Without one, the target is a
	// directory that is there afterwards.
	Archive string `json:"archive,omitempty"`
	// Source is a path in it, or a pattern of path.Match. Of a directory, what is in it is
	// meant.
	Source string `json:"source,omitempty"`
	// Target is an absolute path. One file becomes the target itself, unless that ends in a
	// slash; several are put below it.
	Target string `json:"target,omitempty"`
	// Owner is USER or USER:GROUP, by names of the sandbox or numbers; empty is root.
	Owner string `json:"owner,omitempty"`
	// Mode, if it is not zero, is that of the files. Directories can be entered by those who
	// may read them.
	Mode int64 `json:"mode,omitempty"`
}

// steps are all that is done before something is left running.
func (r Recipe) steps() []Step {
	list := make([]Step, 0, len(r.Run)+len(r.Steps))
	for _, command := range r.Run {
		list = append(list, Step{Command: command})
	}
	return append(list, r.Steps...)
}

// stated says whether no step has anything of the Spec's defaults.
func (r Recipe) stated() bool {
	return len(r.Run) == 0 && len(r.Steps) > 0 && !slices.ContainsFunc(r.Steps, func(s Step) bool { return !s.Stated })
}

func (s Step) shown() string {
	if s.Name != "" {
		return shown([]string{s.Name})
	}
	return shown(s.Command)
}

func (s Step) validate() error {
	for name, value := range s.Env {
		if err := sandbox.ValidEnv(name, value); err != nil {
			return err
		}
	}
	switch {
	case len(s.Name) > maxLine:
		return sandbox.Invalidf("steps.name", "it is over %d bytes", maxLine)
	case strings.ContainsRune(s.User+s.Dir, 0) || s.Dir != "" && !path.IsAbs(s.Dir):
		return sandbox.Invalidf("steps.dir", "%.80q is not an absolute path", s.Dir)
	case s.Stated && s.Files == Files{} && (s.User == "" || s.Dir == ""):
		return sandbox.Invalidf("steps.stated", "its user and its directory are not stated")
	case s.Files == Files{}:
		return validCommand("steps.command", s.Command)
	case len(s.Command) > 0:
		return sandbox.Invalidf("steps.command", "a step has files or a command, and one of them")
	}
	return s.Files.validate()
}

func (f Files) validate() error {
	switch {
	case f.Archive != "" && !isArchiveName(f.Archive):
		return sandbox.Invalidf("steps.files.archive", "%.80q names no archive", f.Archive)
	case !path.IsAbs(f.Target) || path.Clean(f.Target) == "/" || strings.ContainsRune(f.Target, 0):
		return sandbox.Invalidf("steps.files.target", "%.80q is not an absolute path below the root", f.Target)
	case f.Mode < 0 || f.Mode > 0o7777:
		return sandbox.Invalidf("steps.files.mode", "%o is not the mode of a file", f.Mode)
	}
	if _, err := path.Match(f.Source, ""); err != nil {
		return sandbox.Invalidf("steps.files.source", "%.80q is not a path or a pattern", f.Source)
	}
	return nil
}

// do does a step and has its output told, line by line.
func (p *preparation) do(ctx context.Context, s Step, output *lines) (guest.Status, error) {
	if s.Files != (Files{}) {
		return p.unpack(ctx, s.Files, output)
	}
	client := p.client
	if s.User != "" {
		client = guest.ClientFor(p.instance, guest.ClientOptions{User: s.User})
		defer client.Close()
	}
	return runCommand(ctx, client, guest.Cmd{Path: s.Command[0], Args: s.Command[1:], Env: s.Env, Dir: s.Dir, Stdout: output, Stderr: output})
}

// unpack has the sandbox's own tar put files in place, as their owner: what it does is
// bounded as whatever else runs there. Where the owner may not write, files are unpacked
// beside and root moves them: not even root may give files away in every sandbox.
func (p *preparation) unpack(ctx context.Context, f Files, output *lines) (guest.Status, error) {
	parent, top := path.Split(path.Clean(f.Target))
	owner, _, numeric := strings.Cut(f.Owner, ":")
	if owner == "" {
		owner = "root"
	}
	if numeric && strings.Trim(owner, "0123456789") == "" {
		owner = f.Owner
	}
	stage := path.Join(parent, ".unpacked-"+newID())
	status, err := p.script(ctx, "root", `test -d "$1"`, nil, nil, path.Clean(f.Target))
	u := unpacking{f, status == guest.Status{}}
	if err != nil || u.there && f.Archive == "" {
		return status, err
	}
	status, err = p.script(ctx, owner, mayUnpack, nil, nil, parent, path.Clean(f.Target))
	if err != nil {
		return status, err
	}
	if status == (guest.Status{}) {
		return p.script(ctx, owner, `mkdir -p -- "$1" && exec tar -x -p -o -f - -C "$1"`, u.stream(p.archive), output, parent)
	}
	for _, part := range []struct {
		user, text string
		stdin      func(io.Writer) error
	}{
		{"root", `mkdir -p -- "$1" && mkdir -m 0777 -- "$2"`, nil},
		{owner, `tar -x -p -o -f - -C "$2" && cd "$2" && ` + eachDir + `chmod u+rwx,go+wx "$d"; done`, u.stream(p.archive)},
		{"root", moveStage, nil},
		{owner, `cd "$1" && ` + eachDir + `chmod go-w "$d" 2>/dev/null || :; done`, nil},
	} {
		if status, err = p.script(ctx, part.user, part.text, part.stdin, output, parent, stage, top); err != nil || status != (guest.Status{}) {
			return status, err
		}
	}
	return status, nil
}

const (
	// mayUnpack says whether a user may write to the second directory, or make it below what
	// there is of the first. It takes no program but the shell: where one is missing, a loop
	// would go on.
	mayUnpack = `test -d "$2" && { test -w "$2"; exit; }
p=${1%/}; while ! test -d "$p/"; do p=${p%/*}; done
test -w "$p/"`
	// eachDir goes through the directories that are moved.
	eachDir = `for d in "$3" "$3"/* "$3"/.[!.]*; do test -d "$d" && ! test -L "$d" || continue; `
	// moveStage moves what was unpacked to where it belongs. What is in a directory that is
	// there already goes there.
	moveStage = `set -e
cd "$2"
if ! test -e "$3" && ! test -L "$3"; then
	: # there was nothing in it
elif test -d "$3" && ! test -L "$3" && test -d "$1/$3"; then
	for f in "$3"/* "$3"/.[!.]*; do
		test -e "$f" || test -L "$f" || continue
		if test -d "$f" && ! test -L "$f" && test -d "$1/$f"; then cp -R "$f" "$1/$3/"; else mv -f "$f" "$1/$f"; fi
	done
else
	mv -f "$3" "$1/$3"
fi
cd /
rm -rf "$2"`
)

// script runs a script as a user. What stdin writes is what it reads.
func (p *preparation) script(ctx context.Context, user, text string, stdin func(io.Writer) error, output *lines, args ...string) (guest.Status, error) {
	client := guest.ClientFor(p.instance, guest.ClientOptions{User: user})
	defer client.Close()
	cmd := guest.Cmd{Path: "/bin/sh", Args: append([]string{"-c", text, "sh"}, args...), Dir: "/"}
	if output != nil {
		cmd.Stdout, cmd.Stderr = output, output
	}
	if stdin == nil {
		return runCommand(ctx, client, cmd)
	}
	from, to := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := stdin(to)
		written <- err
		to.CloseWithError(err)
	}()
	cmd.Stdin = from
	status, err := runCommand(ctx, client, cmd)
	from.CloseWithError(io.ErrClosedPipe)
	if failed := <-written; failed != nil && !errors.Is(failed, io.ErrClosedPipe) {
		return status, failed // which is why the other end had too little
	}
	return status, err
}

// stream writes the files as tar is to find them.
func (f unpacking) stream(open func(name string) (io.ReadCloser, error)) func(io.Writer) error {
	return func(to io.Writer) error {
		if f.Archive == "" {
			return f.directory(to)
		}
		archive, err := open(f.Archive)
		if err != nil {
			return err
		}
		defer archive.Close()
		return f.move(archive, to)
	}
}
