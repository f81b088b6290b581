package checkpoint

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// VMA is a mapping of a process.
type VMA struct {
	Start, End        uint64
	Read, Write, Exec bool
	Shared            bool
	Offset            uint64
	Inode             uint64
	Name              string // a path, or [stack], [heap], [vdso], ...
	flags             string // as the kernel abbreviates them: " gd wf dc ht "
	// layered says that it is of a file which the cell has written: each child maps
	// the one of its own layer. A zygote has only those pages that are the process's
	// own.
	layered bool
}

// Size is how large it is.
func (a VMA) Size() uint64 { return a.End - a.Start }

// has says whether the kernel has given the mapping a flag of two letters, as all
// are.
func (a VMA) has(flag string) bool { return strings.Contains(a.flags, flag) }

// file says that the mapping shows a file, or did before its pages were written.
func (a VMA) file() bool { return a.Inode != 0 }

// mapsFile says whether who takes on the memory maps the file: a process of a cell
// does, by its path there, and a zygote unless the cell could write to it.
func (a VMA) mapsFile(inside bool) bool { return a.file() && (inside || !a.layered) }

func (a VMA) String() string { return fmt.Sprintf("%x-%x %s", a.Start, a.End, a.Name) }

// maxVMAs is how many mappings a process may have: the kernel's own default.
const maxVMAs = 65530

// parseMaps reads what the kernel calls maps, or smaps, which has flags.
func parseMaps(r io.Reader) ([]VMA, error) {
	var areas []VMA
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 16<<10), 64<<10)
	for lines.Scan() {
		line := lines.Bytes()
		if flags, ok := bytes.CutPrefix(line, []byte("VmFlags:")); ok && len(areas) > 0 {
			areas[len(areas)-1].flags = string(flags) + " "
			continue
		}
		if !isHeader(line) {
			continue
		}
		area, err := parseMapsLine(string(line))
		if err != nil {
			return nil, err
		}
		if areas = append(areas, area); len(areas) > maxVMAs {
			return nil, errors.New("checkpoint: a process with too many mappings")
		}
	}
	return areas, lines.Err()
}

// isHeader tells the line of a mapping from those about it, which begin with a
// capital letter.
func isHeader(line []byte) bool {
	return len(line) > 0 && (line[0] >= '0' && line[0] <= '9' || line[0] >= 'a' && line[0] <= 'f')
}

// parseMapsLine reads "start-end perms offset dev inode   name".
func parseMapsLine(line string) (a VMA, err error) {
	bad := func() (VMA, error) { return VMA{}, fmt.Errorf("checkpoint: a mapping reads %.80q", line) }
	rest := line
	next := func(sep byte) (field string) {
		if i := strings.IndexByte(rest, sep); i >= 0 {
			field, rest = rest[:i], rest[i+1:]
			return field
		}
		field, rest = rest, ""
		return field
	}
	from, to := next('-'), next(' ')
	perms, offset := next(' '), next(' ')
	next(' ') // the device
	inode := next(' ')
	if len(perms) != 4 {
		return bad()
	}
	for _, number := range []struct {
		text string
		base int
		to   *uint64
	}{{from, 16, &a.Start}, {to, 16, &a.End}, {offset, 16, &a.Offset}, {inode, 10, &a.Inode}} {
		if *number.to, err = strconv.ParseUint(number.text, number.base, 64); err != nil {
			return bad()
		}
	}
	const page = 4096
	if a.End <= a.Start || a.Start%page != 0 || a.End%page != 0 {
		return bad()
	}
	a.Read, a.Write, a.Exec, a.Shared = perms[0] == 'r', perms[1] == 'w', perms[2] == 'x', perms[3] == 's'
	a.Name = strings.TrimLeft(rest, " ")
	return a, nil
}

// kernelVMA says that the kernel made the mapping, for every process.
func kernelVMA(a VMA) bool {
	return a.Name == "[vsyscall]" || isVDSO(a)
}

func isVDSO(a VMA) bool {
	return a.Name == "[vdso]" || strings.HasPrefix(a.Name, "[vvar")
}
