package checkpoint

import (
	"os"

	"golang.org/x/sys/unix"
)

// SharedMapping is a mapping of memory that a process shares with whoever maps the same
// file. A zygote has none of them, or all its forks would share them with each
// other: each child maps the file of its own.
type SharedMapping struct {
	Start, Size, Offset uint64
	Protection          uintptr
	// Advice is for madvise, each one.
	Advice []int
	// Writable says that the file was opened for writing, whatever the
	// protection.
	Writable bool
	// Path is the file's, or empty: then Content is what was in it.
	Path    string
	Content *Content
}

// Mappings keeps what the process shares.
func (s *State) Mappings(k *SharedObjects) (list []SharedMapping, err error) {
	for _, a := range s.shared {
		m, err := s.mapping(k, a)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

func (s *State) mapping(k *SharedObjects, a VMA) (m SharedMapping, err error) {
	m = SharedMapping{Start: a.Start, Size: a.Size(), Offset: a.Offset, Protection: protection(a), Writable: a.has("sh"), Advice: adviceOf(a)}
	if byPath() {
		return s.pathMapping(m, a)
	}
	link := a.link(s.PID)
	name, err := os.Readlink(link)
	if err != nil {
		return m, err
	}
	var stat unix.Stat_t
	if err := unix.Stat(link, &stat); err != nil {
		return m, os.NewSyscallError("stat", err)
	}
	shm, err := shmDevice()
	if err != nil {
		return m, err
	}
	switch {
	case stat.Dev != shm && s.isAt(name, link):
		if stat.Mode&unix.S_IFMT != unix.S_IFREG {
			return m, s.refuse(false, "maps a device at %x (%s)", a.Start, name)
		}
		m.Path = name
		return m, nil
	default:
		m.Content, err = k.content(s.Tracee, link, name)
	}
	if err == nil && m.Writable && m.Content.Seals&unix.F_SEAL_FUTURE_WRITE != 0 {
		err = s.refuse(false, "writes to memory at %x that was sealed since it was mapped", a.Start)
	}
	return m, err
}

// adviceOf is what the process has told the kernel about a mapping and children
// are to repeat.
func adviceOf(a VMA) (list []int) {
	for _, known := range []struct {
		flag   string
		advice int
	}{{"dc", unix.MADV_DONTFORK}, {"dd", unix.MADV_DONTDUMP}, {"hg", unix.MADV_HUGEPAGE}, {"nh", unix.MADV_NOHUGEPAGE},
		{"rr", unix.MADV_RANDOM}, {"sr", unix.MADV_SEQUENTIAL}} {
		if a.has(known.flag) {
			list = append(list, known.advice)
		}
	}
	return list
}
