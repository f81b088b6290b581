package twin

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Kept is what the processes of an imprint hold together: which of their
// descriptors stand for one open file, which sockets are connected, and copies of
// what is in files and memory that have no name to find them by again.
type Kept struct {
	open     map[string][]openFile // by what the kernel calls them, in its order
	objects  int
	contents map[fileID]*Content
	bytes    int64
	unix     map[uint64]unixSocket // nil before it was asked for
}

// NewKept begins the keeping for processes that are paused at the same time.
func NewKept() *Kept {
	return &Kept{open: map[string][]openFile{}, contents: map[fileID]*Content{}}
}

// Close gives the copies back.
func (k *Kept) Close() error {
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

// fileID tells files apart, whatever they are called.
type fileID struct{ device, inode uint64 }

// openFile is one that some descriptor stands for.
type openFile struct{ pid, number, object int }

// identify finds out which open file a descriptor stands for. The kernel has an
// order of them, so that few have to be compared.
func (k *Kept) identify(pid int, d *Descriptor) error {
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
	order, _, errno := syscall.RawSyscall6(unix.SYS_KCMP, uintptr(a.pid), uintptr(b.pid), files, uintptr(a.number), uintptr(b.number), 0)
	switch {
	case errno != 0:
		return 0, os.NewSyscallError("kcmp", errno)
	case order == 1:
		return -1, nil
	case order == 2:
		return 1, nil
	case order != 0:
		return 0, fmt.Errorf("twin: the kernel has no order of open files")
	}
	return 0, nil
}
