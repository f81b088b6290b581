package confine

import (
	"errors"
	"testing"

	"aether/internal/host/cgroup"

	"golang.org/x/sys/unix"
)

// TestFaults: whatever fails, by whichever way a command is brought in, is told as
// what it is. ENOENT above all is no missing program where none was executed.
func TestFaults(t *testing.T) {
	program := func(edit func(*Command)) Command {
		c := Command{Path: "/bin/true", Args: []string{"true"}, Dir: "/", UID: UserID, GID: UserID, Group: noGroup}
		edit(&c)
		return c
	}
	cases := []struct {
		name    string
		command Command
		part    string
		errno   unix.Errno
	}{
		{"no such program", program(func(c *Command) { c.Path = "/no/such" }), ExecutePart, unix.ENOENT},
		{"no program", program(func(c *Command) { c.Path = "/etc" }), ExecutePart, unix.EACCES},
		{"no such directory", program(func(c *Command) { c.Dir = "/no/such" }), DirectoryPart, unix.ENOENT},
		{"no directory", program(func(c *Command) { c.Dir = "/bin/true" }), DirectoryPart, unix.ENOTDIR},
	}
	for _, ready := range []bool{false, true} {
		cell := readyCell(t, Config{Ready: ready})
		for _, c := range cases {
			if ready && !cell.host.Identity.Single {
				if err := errors.Join(cell.dismiss(), cell.ready(credentials{uid: UserID, gid: UserID})); err != nil {
					t.Fatal(err)
				}
				cell.standsBy(t, UserID)
			}
			_, _, err := cell.Exec(c.command)
			var fault *Fault
			if !errors.As(err, &fault) || fault.Part != c.part || !errors.Is(err, c.errno) {
				t.Errorf("%s, standing by %v: %v", c.name, ready, err)
			}
		}
	}
}

// TestRemovedGroupIsNoMissingProgram enters a group that is gone.
func TestRemovedGroupIsNoMissingProgram(t *testing.T) {
	group, way, err := limited(owner(t), "removed", cgroup.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if err := group.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, _, err = bootCell(t).Exec(Command{Path: "/bin/true", Args: []string{"true"}, Dir: "/", UID: UserID, GID: UserID, Group: way})
	var fault *Fault
	if err == nil || errors.As(err, &fault) && fault.Part == ExecutePart {
		t.Errorf("got %v", err)
	}
}
