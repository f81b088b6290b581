package confine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"

	"aether/sandbox"

	"golang.org/x/sys/unix"
)

// Ranges of ids are numbered by their first id without its lower half. They are of
// those that systemd reserves for containers, so that no user or service of a host
// owns them. The last two are left to what else root confines with ids of its own.
const (
	firstRange = 0x4000
	lastRange  = 0x6ffd
	ownerRange = 0x3fff // of those in whose name cells are made

	// keptRanges is how many a program keeps that no cell has any more.
	keptRanges = 64
)

// registryPath says which program of this host has which range, by locks on its bytes.
const registryPath = "/run/aether/ids"

// ranges gives cells their ids: a range for each that no other one has as long as it
// lives. The kernel counts many things for the user whose they are, and cells that
// shared a user could take them from each other.
type ranges struct {
	host     *Host
	registry *os.File

	mu   sync.Mutex
	own  map[int64]bool
	free []int64
	next int64 // from where on to look for another one
}

func openRanges(h *Host, dir string) (*ranges, error) {
	r := &ranges{host: h, own: map[int64]bool{}, next: firstRange + rand.Int64N(lastRange-firstRange+1)}
	err := os.MkdirAll(filepath.Dir(registryPath), 0o711)
	if err == nil {
		r.registry, err = os.OpenFile(registryPath, os.O_RDWR|os.O_CREATE, 0o600)
	}
	if err != nil { // /run cannot be written: others in this directory are told apart at least
		r.registry, err = os.OpenFile(filepath.Join(dir, "ids"), os.O_RDWR|os.O_CREATE, 0o600)
	}
	return r, err
}

// owner is the user in whose name the user namespace of the cell with these ids is made. No cell has that
// id inside: who has it outside has every right over the cell, and this program acts
// with ids of the inside where it reads files for somebody in there.
func (id Identity) owner() int { return ownerRange*idCount + id.base/idCount }

// claim gives ids that no living cell has. release must follow.
func (r *ranges) claim() (Identity, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	number, err := r.take()
	return Identity{base: int(number) * idCount}, err
}

func (r *ranges) take() (int64, error) {
	if n := len(r.free); n > 0 {
		number := r.free[n-1]
		r.free = r.free[:n-1]
		return number, nil
	}
	if r.host.without[partRange] {
		for shared := range r.own {
			return shared, nil
		}
	}
	return r.grow()
}

// grow finds another range. The kernel gives up the lock when this program ends,
// however it ends.
func (r *ranges) grow() (int64, error) {
	const count = lastRange - firstRange + 1
	for range count {
		number := r.next
		if r.next++; r.next > lastRange {
			r.next = firstRange
		}
		if r.own[number] {
			continue // a lock of ours would be given again
		}
		err := r.lock(unix.F_WRLCK, number)
		if err == nil {
			r.own[number] = true
			return number, nil
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) {
			return 0, os.NewSyscallError("fcntl", err)
		}
	}
	return 0, &sandbox.Error{Class: sandbox.Exhausted, Op: "confine: ids", Reason: fmt.Sprintf("all %d ranges of ids for cells are in use", count),
		Retry: true, Remedy: "end other cells of this host"}
}

// release gives ids back that nothing has any more.
func (r *ranges) release(id Identity) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.host.without[partRange] {
		return nil
	}
	number := int64(id.base / idCount)
	if len(r.free) < keptRanges {
		r.free = append(r.free, number)
		return nil
	}
	delete(r.own, number)
	return os.NewSyscallError("fcntl", r.lock(unix.F_UNLCK, number))
}

func (r *ranges) lock(kind int16, number int64) error {
	return unix.FcntlFlock(r.registry.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind, Start: number, Len: 1})
}
