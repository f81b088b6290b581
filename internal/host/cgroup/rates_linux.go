package cgroup

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"aether/internal/host/blockdev"
	"aether/sandbox"
)

// The files that hold rates: version 1 has one for each direction.
const (
	unifiedRates = "io.max"
	legacyReads  = "blkio.throttle.read_bps_device"
	legacyWrites = "blkio.throttle.write_bps_device"
)

// SetRates holds the group to rates on each of the disks. Errors: as Set.
func (g *Group) SetRates(r Rates, disks []blockdev.Disk) error {
	if err := g.owner.host.EnforcesRates(r); err != nil || r == (Rates{}) {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.owner.giveIO(); err != nil {
		return g.wrap("give the io controller", err)
	}
	if err := g.growFor(IO); err != nil {
		return err
	}
	n, _ := g.with(IO)
	g.rated = true
	for _, disk := range disks {
		if err := n.setRates(g.unified(IO), r, disk); err != nil {
			return g.refusedRate(r.field(), disk, err)
		}
	}
	return nil
}

func (n node) setRates(unified bool, r Rates, disk blockdev.Disk) error {
	if unified {
		return n.write(unifiedRates, fmt.Appendf(nil, "%v rbps=%s wbps=%s", disk, rate(r.Read), rate(r.Write)))
	}
	return n.write(legacyReads, fmt.Appendf(nil, "%v %d", disk, r.Read)) // writes are refused: see EnforcesRates
}

// rate is a rate as version 2 reads it.
func rate(bytes int64) string {
	if bytes == 0 {
		return "max"
	}
	return strconv.FormatInt(bytes, 10)
}

func (g *Group) refusedRate(field string, disk blockdev.Disk, err error) error {
	if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.EOPNOTSUPP) {
		return g.refused(field, err)
	}
	return &sandbox.Error{Class: sandbox.Unavailable, Op: "cgroup: set " + g.name, Field: field, Err: err,
		Reason: fmt.Sprintf("the kernel holds nobody to a rate on the disk %v", disk),
		Remedy: "use a kernel with CONFIG_BLK_DEV_THROTTLING and another disk, or leave the limit unset"}
}

// LiftRates ends the rates of a group whose processes are to end: one that waits for a
// slow disk does not before it has what it waits for.
func (g *Group) LiftRates() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.wrap("lift the rates", g.liftRates())
}

// liftRates is called with the lock held.
func (g *Group) liftRates() error {
	if !g.rated {
		return nil
	}
	n, _ := g.with(IO)
	err := n.liftRates()
	g.rated = err != nil
	return err
}

// liftAll lifts the rates of the group and of those directly below it, which are the
// groups of sandboxes: those of commands have none.
func (n node) liftAll() error {
	below, err := n.children()
	if err != nil {
		return absent(err)
	}
	for _, child := range append(below, n) {
		err = errors.Join(err, child.liftRates())
	}
	return err
}

// liftRates ends all rates that are set in a group, whoever set them.
func (n node) liftRates() error {
	return errors.Join(n.lift(unifiedRates, "rbps=max wbps=max riops=max wiops=max"), n.lift(legacyReads, "0"), n.lift(legacyWrites, "0"))
}

// liftRounds bounds how often a file is read that names more disks than one reading
// shows.
const liftRounds = 64

// lift writes a value for every disk that a file names, by which its line goes. Where
// there is no such file, or the disk is gone, there is nothing to lift.
func (n node) lift(file, value string) error {
	for range liftRounds {
		text, err := n.read(file)
		if err != nil || len(text) == 0 {
			return absent(err)
		}
		for line := range strings.Lines(string(text)) {
			disk, rest, _ := strings.Cut(line, " ")
			if !strings.HasSuffix(rest, "\n") {
				break // more than one reading shows
			}
			if err := absent(n.write(file, []byte(disk+" "+value))); err != nil {
				return err
			}
		}
	}
	return nil
}
