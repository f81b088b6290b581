package confine

import (
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// Explain prints every system call by which a cell and a command in it are set
// up, part by part, without making any of them.
func (b *Base) Explain(w io.Writer, config Config, command Command) error {
	if err := b.explainStage(w); err != nil {
		return err
	}
	if err := b.explainBoot(w, config); err != nil {
		return err
	}
	s, err := b.host.script(command.size())
	if err != nil {
		return err
	}
	defer s.Free()
	group, err := command.Group.Open(firstFd)
	if err != nil {
		return err
	}
	defer group.Close()
	cell := &Cell{host: b.host, config: config}
	t := target{pidfd: unix.Getpid(), joined: cell.joined(), network: -1, group: group, cgroupns: group.Into}
	if cell.leased() {
		t.network = t.pidfd
	}
	if _, err := s.enter(cell, t, command); err != nil {
		return err
	}
	return s.explain(w, "The command: clone3 by a thread of aether, then")
}

// explainStage prints what root does once for an image.
func (b *Base) explainStage(w io.Writer) error {
	h := b.host
	if h.Identity.Single {
		return nil // it is a part of each cell's own script
	}
	s, err := h.script(0)
	if err != nil {
		return err
	}
	defer s.Free()
	s.initFiles(h)
	s.stage(h.dir, b.tree, true)
	return s.explain(w, "Once for each image: clone3 with a new mount namespace, then")
}

func (b *Base) explainBoot(w io.Writer, config Config) error {
	mounts, err := checkMounts(config)
	if err != nil {
		return err
	}
	s, err := b.host.script(0)
	if err != nil {
		return err
	}
	defer s.Free()
	group, err := config.init().Open(firstFd)
	if err != nil {
		return err
	}
	defer group.Close()
	s.boot(&Cell{host: b.host, base: b, config: config, identity: b.host.Identity}, mounts, group, b.host.null, b.host.null)
	return s.explain(w, "PID 1: clone3 with new user, pid, mount, ipc, uts and net namespaces, then")
}

func (s script) explain(w io.Writer, title string) error {
	if _, err := fmt.Fprintf(w, "%s\n", title); err != nil {
		return err
	}
	for i, p := range s.plan.parts {
		end := s.Len()
		if i+1 < len(s.plan.parts) {
			end = s.plan.parts[i+1].start
		}
		if end == p.start {
			continue
		}
		if _, err := fmt.Fprintf(w, "  # %s\n", p.name); err != nil {
			return err
		}
		if err := s.Explain(w, p.start, end); err != nil {
			return err
		}
	}
	return nil
}
