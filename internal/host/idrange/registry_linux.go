package idrange

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

// Ranges are numbered by their first id without its lower half. They are of those that
// systemd reserves for containers, so that no user or service of a host owns them. The
// last two are left to what else root confines with ids of its own.
const (
	first  = 0x4000
	last   = 0x6ffd
	owners = 0x3fff // of those in whose name user namespaces are made

	// kept is how many a program keeps that no sandbox has any more.
	kept = 64
)

// Count is how many ids a range has.
const Count = 1 << 16

// registryPath says which program of this host has which range, by locks on its bytes.
const registryPath = "/run/aether/ids"

// Range is 65536 ids of the host.
type Range int64

// First is the lowest of its ids.
func (r Range) First() int { return int(r) * Count }

// Owner is the user in whose name the user namespace of a sandbox with these ids is made.
// No sandbox has that id inside: who has it outside has every right over the sandbox.
func (r Range) Owner() int { return owners*Count + int(r) }

// Registry gives ranges, each to one sandbox as long as it lives.
type Registry struct {
	file *os.File

	mu   sync.Mutex
	own  map[Range]bool
	free []Range
	next Range // from where on to look for another one
}

// Open opens the registry of this host; dir is for one among the programs that have that
// directory where /run cannot be written.
func Open(dir string) (*Registry, error) {
	err := os.MkdirAll(filepath.Dir(registryPath), 0o711)
	var file *os.File
	if err == nil {
		file, err = os.OpenFile(registryPath, os.O_RDWR|os.O_CREATE, 0o600)
	}
	if err != nil {
		file, err = os.OpenFile(filepath.Join(dir, "ids"), os.O_RDWR|os.O_CREATE, 0o600)
	}
	return newRegistry(file, first+Range(rand.Int64N(last-first+1))), err
}

func newRegistry(file *os.File, next Range) *Registry {
	return &Registry{file: file, own: map[Range]bool{}, next: next}
}

// Close gives everything back.
func (r *Registry) Close() error { return r.file.Close() }

// Held says how many ranges this program has, and how many of them no sandbox has.
func (r *Registry) Held() (all, free int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.own), len(r.free)
}

// Claim gives ids that no living sandbox has. Release must follow. Errors: Exhausted.
func (r *Registry) Claim() (Range, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.free); n > 0 {
		number := r.free[n-1]
		r.free = r.free[:n-1]
		return number, nil
	}
	return r.grow()
}

// grow finds another range. The kernel gives up the lock when this program ends,
// however it ends.
func (r *Registry) grow() (Range, error) {
	const count = last - first + 1
	for range count {
		number := r.next
		if r.next++; r.next > last {
			r.next = first
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
	return 0, &sandbox.Error{Class: sandbox.Exhausted, Op: "ids", Reason: fmt.Sprintf("all %d ranges of ids for sandboxes are in use", count),
		Retry: true, Remedy: "end other sandboxes of this host"}
}

// Release gives ids back that nothing has any more.
func (r *Registry) Release(number Range) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.free) < kept {
		r.free = append(r.free, number)
		return nil
	}
	delete(r.own, number)
	return os.NewSyscallError("fcntl", r.lock(unix.F_UNLCK, number))
}

func (r *Registry) lock(kind int16, number Range) error {
	return unix.FcntlFlock(r.file.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind, Start: int64(number), Len: 1})
}
