package isolationprobe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

// Modes are the first argument of the program. Those that use something up are runs of their
// own: such a run may be killed.
const (
	// ModeLook reads a Request and writes a Document. Further arguments are marks, by which the
	// outside finds the program among the processes of the host.
	ModeLook = "look"
	// ModeWait stays until its input ends. Further arguments are marks.
	ModeWait = "wait"
	// ModeMemory, ModeProcesses and ModeDisk take that much and no more, and write after each
	// step how much they have.
	ModeMemory    = "memory"
	ModeProcesses = "processes"
	ModeDisk      = "disk"

	modeCalls = "calls"
)

// life is how long any run stays at most, whoever forgets it.
const life = 2 * time.Minute

// Main is the program.
func Main(args []string, in io.Reader, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("usage: aether-probe look|wait|memory|processes|disk (run by `aether`, inside sandboxes)")
	}
	time.AfterFunc(life, func() {
		fmt.Fprintln(os.Stderr, "aether-probe: nobody ended this program")
		os.Exit(1)
	})
	switch args[0] {
	case ModeLook:
		return look(in, out)
	case ModeWait:
		_, err := io.Copy(io.Discard, in)
		return err
	}
	if len(args) < 2 {
		return fmt.Errorf("%q needs a number", args[0])
	}
	most, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	switch args[0] {
	case modeCalls:
		return makeCalls(int(most), out)
	case ModeMemory:
		return takeMemory(most, out)
	case ModeProcesses:
		return takeProcesses(most, out)
	case ModeDisk:
		return takeDisk(most, out)
	}
	return fmt.Errorf("%q is not a mode", args[0])
}

// maxRequest bounds what is read of a request.
const maxRequest = 64 << 10

func look(in io.Reader, out io.Writer) error {
	var r Request
	if err := json.NewDecoder(io.LimitReader(in, maxRequest)).Decode(&r); err != nil {
		return err
	}
	if r.Version != Version {
		return fmt.Errorf("the request is of version %d, and this program is of %d", r.Version, Version)
	}
	l := &looker{Request: r}
	calls, err := takeCensus()
	if err != nil {
		return err
	}
	l.calls = calls
	d := Document{Version: Version, Calls: calls.count()}
	for _, p := range probes() {
		s := p.look(l)
		s.Name, s.Seen = p.name, printable(s.Seen, maxSeen)
		d.Sightings = append(d.Sightings, s)
	}
	return json.NewEncoder(out).Encode(d)
}

// looker is what probes need.
type looker struct {
	Request
	calls census
}

type probe struct {
	name string
	look func(*looker) Sighting
}

// probes are all of them.
func probes() []probe {
	var all []probe
	for _, group := range [][]probe{kernelProbes, callProbes(), capabilityProbes(), namespaceProbes(), privilegeProbes, interfaceProbes(), deviceProbes, visibilityProbes, networkProbes, limitProbes} {
		all = append(all, group...)
	}
	return all
}

// Names are those of all probes of ModeLook.
func Names() []string {
	var list []string
	for _, p := range probes() {
		list = append(list, p.name)
	}
	return list
}

func open(format string, args ...any) Sighting {
	return Sighting{State: Open, Seen: fmt.Sprintf(format, args...)}
}

func closed(format string, args ...any) Sighting {
	return Sighting{State: Closed, Seen: fmt.Sprintf(format, args...)}
}

func value(text string) Sighting { return Sighting{State: Value, Seen: text} }

func unknown(format string, args ...any) Sighting {
	return Sighting{State: Unknown, Seen: fmt.Sprintf(format, args...)}
}

// whether is open or closed, by what was seen.
func whether(isOpen bool, seen string) Sighting {
	if isOpen {
		return open("%s", seen)
	}
	return closed("%s", seen)
}
