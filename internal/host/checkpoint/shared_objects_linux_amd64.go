package checkpoint

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// SharedObjects is what the processes of a checkpoint hold together: which of their
// descriptors stand for one open file, which sockets are connected, and copies of
// what is in files and memory that have no name to find them by again.
type SharedObjects struct {
	open     map[string][]openFile // by what the kernel calls them, in its order
	objects  int
	contents map[fileID]*Content
	bytes    int64
	unix     map[uint64]unixSocket // nil before it was asked for
	polls    map[int]*pollSet      // by object
	sockets  map[uint64]bool       // the inodes of all
	tcp      map[tcpEnds]uint64    // nil before it was asked for
	// undecided are connections that are refused or closed when all sockets are known.
	undecided []loopbackConnection
}

// pollSet is an epoll set, while it is found out by whom its files are watched.
type pollSet struct {
	unclaimed map[watchID]bool
	refusal   error
}

// watchID tells the watches of an epoll set apart: the number that each was made
// with, and how many of that number came before.
type watchID struct{ number, before int }

// NewSharedObjects begins the keeping for processes that are stopped at the same time.
func NewSharedObjects() *SharedObjects {
	return &SharedObjects{open: map[string][]openFile{}, contents: map[fileID]*Content{}, polls: map[int]*pollSet{}, sockets: map[uint64]bool{}}
}

// Close gives the copies back.
func (k *SharedObjects) Close() error {
	if k == nil {
		return nil
	}
	var errs []error
	for _, c := range k.contents {
		errs = append(errs, c.file.Close())
	}
	k.contents = nil
	return errors.Join(errs...)
}

// openFile is one that some descriptor stands for.
type openFile struct{ pid, number, object int }

// identify finds out which open file a descriptor stands for. The kernel has an
// order of them, so that few have to be compared.
func (k *SharedObjects) identify(pid int, d *Descriptor) error {
	var failed error
	known := k.open[d.Target]
	at, found := slices.BinarySearchFunc(known, openFile{pid: pid, number: d.Number}, func(a, b openFile) int {
		order, err := compareFiles(a, b)
		failed = errors.Join(failed, err)
		return order
	})
	if failed != nil {
		return failed
	}
	if found {
		d.Object = known[at].object
		return nil
	}
	k.objects++
	d.Object = k.objects
	k.open[d.Target] = slices.Insert(known, at, openFile{pid, d.Number, d.Object})
	return nil
}

func compareFiles(a, b openFile) (int, error) {
	const files = 0 // KCMP_FILE
	return compare(a.pid, b.pid, files, uintptr(a.number), uintptr(b.number))
}

// claim keeps those watches of an epoll set that the process can make again: in
// which the number stands for the file that is watched. A number may have been
// closed since, or stand for another file, or be one of another process.
func (k *SharedObjects) claim(p *Tracee, d *Descriptor) error {
	set := k.polls[d.Object]
	if set == nil {
		set = &pollSet{map[watchID]bool{}, p.refuse(false, "has an epoll set, descriptor %d, that watches a file which has been closed under the number that it is watched by", d.Number)}
		for _, id := range watchIDs(d.Watches) {
			set.unclaimed[id] = true
		}
		k.polls[d.Object] = set
	}
	var own []Watch
	for i, id := range watchIDs(d.Watches) {
		if !set.unclaimed[id] {
			continue
		}
		same, err := p.watches(d.Number, id)
		if err != nil {
			return err
		}
		if same {
			delete(set.unclaimed, id)
			own = append(own, d.Watches[i])
		}
	}
	d.Watches = own
	return nil
}

func watchIDs(watches []Watch) []watchID {
	seen, ids := map[int]int{}, make([]watchID, len(watches))
	for i, w := range watches {
		ids[i] = watchID{w.Number, seen[w.Number]}
		seen[w.Number]++
	}
	return ids
}

// watches says whether a number of the process stands for what an epoll set
// watches by it.
func (p *Tracee) watches(poll int, id watchID) (bool, error) {
	const watched = 7 // KCMP_EPOLL_TFD
	slot := [3]uint32{uint32(poll), uint32(id.number), uint32(id.before)}
	order, _, errno := syscall.RawSyscall6(unix.SYS_KCMP, uintptr(p.PID), uintptr(p.PID), watched, uintptr(id.number), uintptr(unsafe.Pointer(&slot)), 0)
	if errno == unix.EBADF {
		return false, nil
	}
	if errno != 0 {
		return false, os.NewSyscallError("kcmp", errno)
	}
	return order == 0, nil
}

// Check says, once all processes have been read, whether all that they hold
// together can be made again.
func (k *SharedObjects) Check() error {
	for _, set := range k.polls {
		if len(set.unclaimed) > 0 {
			return set.refusal
		}
	}
	return k.decide()
}
