package confine

import (
	"encoding/binary"

	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

const here = ^uintptr(99) // AT_FDCWD

// script adds to spawn.Script the calls that this package makes, with names,
// and the parts that they make up.
type script struct {
	*spawn.Script
	plan *plan
}

// plan says which parts a script has, for those who read it. A part that the
// host is told to do without is left out: so the tests prove that they notice.
type plan struct {
	parts   []part
	without map[string]bool
}

type part struct {
	name  string
	start int
}

// The parts of scripts. Each is one promise to those outside a cell.
const (
	partGroups       = "join the control groups"
	partFiles        = "standard descriptors"
	partIdentity     = "identity in the new user namespace"
	partRange        = "ids that no other cell has" // no steps, but what maps and owners are
	partStage        = "stage: the image, devices and places for mounts"
	partNetwork      = "bring the loopback of the new net namespace up"
	partHold         = "hold the net namespace" // no steps, but who does
	partPark         = "wait to be wanted"
	partRoot         = "root file system: image below, own writes above"
	partMasks        = "cover what /proc shows of the machine"
	partPivot        = "make it the root and let go of the host's"
	partMounts       = "paths of the host that were asked for"
	partInit         = "become PID 1, which only reaps"
	partEnter        = "enter the cell's namespaces"
	partBorn         = "be born again, inside"
	partSession      = "session and terminal"
	partRlimits      = "resource limits"
	partBounds       = "empty the bounds of capabilities"
	partCapabilities = "drop identity, capabilities and every way to new ones"
	partLandlock     = "landlock"
	partFilter       = "system call filter"
	partHelper       = "make things for others"
	partDirectory    = "working directory"
	partExecute      = "execute"
)

// part begins a part; false says to leave it out.
func (s script) part(name string) bool {
	if s.plan.without[name] {
		return false
	}
	s.plan.parts = append(s.plan.parts, part{name, s.Len()})
	return true
}

// at is the part that a step belongs to.
func (p *plan) at(step int) (name string) {
	for _, part := range p.parts {
		if part.start <= step {
			name = part.name
		}
	}
	return name
}

func (h *Host) script(size int) (script, error) {
	raw, err := spawn.NewScript(size)
	return script{raw, &plan{without: h.without}}, err
}

func (s script) mount(source, target, fstype string, flags uintptr, data string) spawn.Step {
	return s.Call(unix.SYS_MOUNT, s.String(source), s.String(target), s.String(fstype), flags, s.String(data))
}

func (s script) bind(source, target string) spawn.Step {
	return s.mount(source, target, "none", unix.MS_BIND|unix.MS_REC, "")
}

func (s script) mkdir(path string, mode uintptr) spawn.Step {
	return s.Call(unix.SYS_MKDIRAT, here, s.String(path), mode)
}

// file makes an empty file, as a place to mount on.
func (s script) file(path string) spawn.Step {
	return s.Call(unix.SYS_MKNODAT, here, s.String(path), unix.S_IFREG|0o644, 0)
}

func (s script) symlink(target, path string) {
	s.Call(unix.SYS_SYMLINKAT, s.String(target), here, s.String(path))
}

func (s script) chdir(path string) { s.Call(unix.SYS_CHDIR, s.String(path)) }

// pivot makes the working directory the root and lets go of the old one.
func (s script) pivot() {
	s.Call(unix.SYS_PIVOT_ROOT, s.String("."), s.String("."))
	s.Call(unix.SYS_UMOUNT2, s.String("."), unix.MNT_DETACH)
	s.chdir("/")
}

// setattr sets mount attributes of the mount at path, or of the descriptor fd
// with an empty path.
func (s script) setattr(fd uintptr, path string, flags uintptr, set uint64) spawn.Step {
	const attrSize = 32 // attr_set, attr_clr, propagation, userns_fd
	address, attr := s.Bytes(attrSize)
	binary.LittleEndian.PutUint64(attr, set)
	return s.Call(unix.SYS_MOUNT_SETATTR, fd, s.String(path), flags, address, attrSize)
}

// writeFile writes a short text to a file that exists. The descriptor is left
// to the close_range that every script ends with.
func (s script) writeFile(path, text string) {
	open := s.Call(unix.SYS_OPENAT, here, s.String(path), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	write := s.Call(unix.SYS_WRITE, 0, s.String(text), uintptr(len(text)))
	open.Into(write, 0)
}

// closeFrom closes every descriptor from fd on.
func (s script) closeFrom(fd uintptr) {
	s.Call(unix.SYS_CLOSE_RANGE, fd, 0xffffffff, 0)
}

func (s script) prctl(args ...uintptr) spawn.Step { return s.Call(unix.SYS_PRCTL, args...) }

// unmaskSignals is the last step before a program is executed.
func (s script) unmaskSignals() {
	s.Call(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, s.NoSignals(), 0, 8)
}
