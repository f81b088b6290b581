package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"aether/internal/host/pty"
	"aether/sandbox"
)

// controlling is a process's own terminal, whichever that is.
const controlling = "/dev/tty"

// terminal says that a descriptor stands for one.
func (d Descriptor) terminal() bool {
	_, ok := terminalNumber(d.Target)
	return ok || d.Target == controlling
}

// terminal finds a terminal of the source by its number.
func (r *FileRestorer) terminal(number int) *Stream {
	for _, s := range r.streams {
		if s.Terminal != nil && s.Terminal.Number == number {
			return s
		}
	}
	return nil
}

// newTerminal opens a terminal of the cell. It must never be by the name of the
// controlling one, which here would be this program's.
func (r *FileRestorer) newTerminal(p *Process, d Descriptor) (*os.File, error) {
	number, err := terminalOf(p, d)
	if err != nil {
		return nil, err
	}
	if r.terminals[number] == nil {
		slave, err := r.terminalLike(p, r.terminal(number))
		if err != nil {
			return nil, err
		}
		r.terminals[number] = r.give(slave)
	}
	return reopen(r.terminals[number], d.Flags)
}

// terminalOf is the number of the terminal that a descriptor stands for.
func terminalOf(p *Process, d Descriptor) (int, error) {
	if number, ok := terminalNumber(d.Target); ok {
		return number, nil
	}
	number := p.Place.Terminal & 0xff // for there are fewer terminals
	if terminalDevice(number) != p.Place.Terminal {
		return 0, p.refuse("has descriptor %d open on a terminal that it no longer has", d.Number)
	}
	return number, nil
}

// terminalLike makes a terminal with the number and settings of the source's.
func (r *FileRestorer) terminalLike(p *Process, source *Stream) (*os.File, error) {
	const most = 256
	number := source.Terminal.Number
	var aside []*os.File
	defer func() {
		for _, f := range aside {
			f.Close()
		}
	}()
	for range most {
		master, slave, err := r.cell.OpenPTY()
		if err != nil {
			return nil, err
		}
		n, err := pty.Number(master)
		if err == nil && n == number {
			r.Outside[source] = master
			return slave, errors.Join(source.Terminal.Settings.Apply(master), r.giveTerminal(slave, p.Place))
		}
		aside = append(aside, master, slave)
		if err != nil {
			return nil, err
		}
	}
	return nil, &sandbox.Error{Class: sandbox.Exhausted, Reason: fmt.Sprintf("terminal %d is taken", number)}
}

// giveTerminal makes a process's user the owner of its terminal.
func (r *FileRestorer) giveTerminal(slave *os.File, place Place) error {
	uid, gid, err := r.cell.Identity().ToHost(place.UID, place.GID)
	if err != nil {
		return err
	}
	return slave.Chown(uid, gid)
}

// terminalNumber reads /dev/pts/3.
func terminalNumber(target string) (n int, ok bool) {
	rest, found := strings.CutPrefix(target, "/dev/pts/")
	if !found {
		return 0, false
	}
	_, err := fmt.Sscanf(rest, "%d", &n)
	return n, err == nil && fmt.Sprint(n) == rest
}

// terminalDevice is the number of a terminal's device, as the kernel writes it.
func terminalDevice(number int) int {
	const major = 136 // UNIX98_PTY_SLAVE_MAJOR
	return (major+number>>8)<<8 | number&0xff
}
