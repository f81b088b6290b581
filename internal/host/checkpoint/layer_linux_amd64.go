package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"aether/internal/host/confine"

	"golang.org/x/sys/unix"
)

// A zygote and all its forks map the same file where the process maps one of the
// image, which nobody can write to. A file that the cell can write must not be mapped
// like that: what the source writes to it after the fork would appear in the memory of
// its children. If such a file has a path in the cell, each child maps the one that it
// has there itself (VMA.layered). What else there is, such as files that were removed,
// becomes memory without a file, and all of its pages are copied.

// layerMap tells what a cell has written, by paths.
type layerMap struct {
	writes *confine.WriteSource
	absent map[string]bool // directories, whether the cell has written nothing below
}

func newLayerMap(writes *confine.WriteSource) *layerMap {
	return &layerMap{writes, map[string]bool{"/": false}}
}

// open opens what the cell has written at a path; see WriteSource.Open.
func (l *layerMap) open(name string) (file *os.File, written bool, err error) {
	if absent, err := l.isAbsent(path.Dir(name)); absent || err != nil {
		return nil, false, err
	}
	return l.writes.Open(name)
}

// isAbsent says whether the cell has written nothing below a directory. Most processes
// map files of /usr only, and most cells have no such directory: one look is enough.
func (l *layerMap) isAbsent(dir string) (bool, error) {
	if absent, known := l.absent[dir]; known {
		return absent, nil
	}
	absent, err := l.isAbsent(path.Dir(dir))
	if !absent && err == nil && dir != "/dev" { // whose /dev/shm is apart
		var file *os.File
		var written bool
		if file, written, err = l.writes.Open(dir); file != nil {
			err = errors.Join(err, file.Close())
		}
		absent = !written
	}
	l.absent[dir] = absent && err == nil
	return l.absent[dir], err
}

// placeFiles finds out for every mapping of a file which of the three it is, and adapts
// the mappings and pages that children have to it. It comes when the process's own pages
// have been found.
func (s *State) placeFiles(was *State) error {
	may, err := s.mayMapWritten()
	if err != nil {
		return err
	}
	f := &fileFinder{State: s}
	defer f.close()
	if may {
		if err := f.placeAll(); err != nil {
			return err
		}
	}
	s.own = f.adapt(both(s.found.own, s.private))
	s.written = f.adapt(both(s.found.written, s.private))
	if s.unchanged = s.unchanged && was.writes == f.changed; !f.changed {
		return nil
	}
	s.writes = true
	s.unchanged = s.unchanged && slices.Equal(s.vmas, was.vmas) && slices.Equal(s.shared, was.shared)
	return s.nameOutline()
}

// mayMapWritten says whether some mapping may be of a file that the cell has written.
// Most processes map files of /usr only, and most cells have written nothing there.
func (s *State) mayMapWritten() (bool, error) {
	last := ""
	for _, list := range [][]VMA{s.asRead.vmas, s.asRead.shared} {
		for _, a := range list {
			if a.Name == last || !concerned(a) {
				continue
			}
			if last = a.Name; strings.HasSuffix(a.Name, removedMark) || escaped(a.Name) {
				return true, nil
			}
			if absent, err := s.layer.isAbsent(path.Dir(a.Name)); !absent || err != nil {
				return true, err
			}
		}
	}
	return false, nil
}

// concerned says whether it matters where the file of a mapping is. Shared ones children
// map anew anyway; but one that is only to be read may show a file of the image as that
// was before the cell changed it.
func concerned(a VMA) bool {
	stale := !a.has("sh") && !strings.HasSuffix(a.Name, removedMark) && !byPath()
	return a.file() && !kernelVMA(a) && (!a.Shared || stale)
}

// nameOutline has the outline tell the names of files, too: it matters whether one has
// been renamed by the next time.
func (s *State) nameOutline() (err error) {
	if s.outline.list != nil {
		s.outline, err = readOutline(s.PID, true)
	}
	return err
}

// fileFinder finds out what mappings show.
type fileFinder struct {
	*State
	memory, pagemap, ours *os.File

	changed bool  // some mapping is not of the image
	copied  []run // pages of files that are copied
	beyond  []run // addresses for which their files have nothing
}

// adapt gives the pages that children have, of those that are the process's own. The
// kernel still tells of pages that went when their file was truncated.
func (f *fileFinder) adapt(own []run) []run {
	byStart := func(a, b run) int { return cmp.Compare(a.Start, b.Start) }
	slices.SortFunc(f.copied, byStart)
	slices.SortFunc(f.beyond, byStart)
	return union(minus(own, f.beyond), f.copied)
}

func (f *fileFinder) close() {
	for _, file := range []*os.File{f.memory, f.pagemap, f.ours} {
		if file != nil {
			file.Close()
		}
	}
}

// placeAll finds out about all mappings.
func (f *fileFinder) placeAll() error {
	all := slices.Concat(f.asRead.vmas, f.asRead.shared)
	for i := range all {
		if err := f.place(&all[i]); err != nil {
			return err
		}
	}
	if f.changed {
		slices.SortFunc(all, func(a, b VMA) int { return cmp.Compare(a.Start, b.Start) })
		f.mappings = splitMappings(all)
	}
	return nil
}

// place finds out about a mapping.
func (f *fileFinder) place(a *VMA) error {
	if !concerned(*a) {
		return nil
	}
	place, err := f.find(a)
	if err != nil || place == ofImage || place == ofLayer && a.Shared {
		return err
	}
	f.changed = true
	if a.layered = place == ofLayer; !a.layered {
		return f.detach(a)
	}
	return nil
}

// filePlace is where the file of a mapping is.
type filePlace int

const (
	ofImage  filePlace = iota // or on a mount that children have too
	ofLayer                   // of the cell's writes, at the mapping's path
	ofNobody                  // there is no telling
)

// find finds out where the file of a mapping is.
func (f *fileFinder) find(a *VMA) (filePlace, error) {
	if escaped(a.Name) && a.readName(f.PID) != nil { // an ordinary user cannot
		return ofNobody, nil
	}
	file, written, err := f.layer.open(a.Name)
	if err != nil {
		return ofNobody, err
	}
	if !written && !strings.HasSuffix(a.Name, removedMark) {
		return ofImage, nil
	}
	if file == nil {
		return ofNobody, nil
	}
	defer file.Close()
	own := both(runsOf([]VMA{*a}), f.found.own)
	if shows, err := f.shows(a, file); err != nil || !shows || sizeOf(own) > maxAside || len(own) > maxRunsAside {
		return ofNobody, err
	}
	return ofLayer, f.cut(a, file)
}

// cut notes for which addresses of a mapping its file has nothing.
func (f *fileFinder) cut(a *VMA, file *os.File) error {
	info, err := file.Stat()
	if err == nil {
		f.beyond = append(f.beyond, minus(runsOf([]VMA{*a}), within(*a, uint64(info.Size())))...)
	}
	return err
}

// escaped says that a name may not be that of the file: in its list of mappings the
// kernel writes a line feed as a backslash and digits.
func escaped(name string) bool { return strings.Contains(name, `\`) }

// readName reads the name of a mapping's file.
func (a *VMA) readName(pid int) error {
	name, err := os.Readlink(a.link(pid))
	if err == nil {
		a.Name = name
	}
	return err
}

// link leads to what the kernel calls the file of a mapping.
func (a *VMA) link(pid int) string {
	return fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, a.Start, a.End)
}

// shows says whether a mapping shows a file, for certain: whether both have the same
// page of memory. What the kernel calls the file of a mapping is no proof: when a file
// of the image is changed, a mapping from before shows the old one, under the same name
// and number.
func (f *fileFinder) shows(a *VMA, file *os.File) (bool, error) {
	if err := f.openAll(); err != nil {
		return false, err
	}
	info, err := file.Stat()
	if err != nil {
		return false, err
	}
	candidates := minus(within(*a, uint64(info.Size())), f.found.own)
	if len(candidates) == 0 { // nothing of the file is to be seen
		return f.isAt(a.Name, a.link(f.PID)), nil
	}
	at := candidates[0].Start
	var one [1]byte
	if _, err := f.memory.ReadAt(one[:], int64(at)); err != nil {
		return false, nil // there is none in the mapping
	}
	theirs, err := frame(f.pagemap, at)
	if err != nil || theirs == 0 {
		return false, err
	}
	ours, err := f.frameOf(file, a.Offset+at-a.Start)
	return ours == theirs, err
}

func (f *fileFinder) openAll() (err error) {
	if f.memory != nil {
		return nil
	}
	if f.pagemap, err = os.Open(fmt.Sprintf("/proc/%d/pagemap", f.PID)); err != nil {
		return err
	}
	if f.ours, err = os.Open("/proc/self/pagemap"); err != nil {
		return err
	}
	f.memory, err = os.Open(fmt.Sprintf("/proc/%d/mem", f.PID))
	return err
}

// frameOf is the frame of the page of a file, or 0.
func (f *fileFinder) frameOf(file *os.File, offset uint64) (number uint64, err error) {
	// It is not touched here: the file may be truncated at any time.
	memory, err := unix.Mmap(int(file.Fd()), int64(offset), pageSize, unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return 0, os.NewSyscallError("mmap", err)
	}
	number, err = frame(f.ours, addressOf(memory))
	return number, errors.Join(err, unix.Munmap(memory))
}

// within are the addresses of a mapping that a file of a size has something for.
func within(a VMA, size uint64) []run {
	if size <= a.Offset {
		return nil
	}
	end := a.Start + (size-a.Offset+pageSize-1)&^(pageSize-1)
	return []run{{a.Start, min(a.End, end)}}
}

// detach makes a mapping one of memory without a file, and adds what is in it to what
// is copied.
func (f *fileFinder) detach(a *VMA) error {
	there, err := f.content(a)
	if err != nil {
		return err
	}
	if f.copied = append(f.copied, there...); sizeOf(f.copied) > maxContent {
		return f.refuse(false, "maps more than %d MiB of files that were removed or replaced (%s)", maxContent>>20, a.Name)
	}
	a.Inode, a.Offset, a.Name, a.Shared = 0, 0, "", false
	return nil
}

// content finds where in a mapping there is something. Holes are left out where they
// are known: looking at one would fill it.
func (f *fileFinder) content(a *VMA) ([]run, error) {
	if err := f.openAll(); err != nil {
		return nil, err
	}
	file, err := os.Open(a.link(f.PID))
	if err != nil { // an ordinary user cannot
		return f.readable(a), nil
	}
	defer file.Close()
	shows, err := f.shows(a, file)
	if err != nil || !shows {
		return f.readable(a), err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	data, err := dataRuns(file, info.Size())
	return inMapping(*a, data), errors.Join(err, f.cut(a, file))
}

// inMapping gives the addresses at which a mapping has parts of its file.
func inMapping(a VMA, data []run) (list []run) {
	for _, r := range data {
		start, end := r.Start&^(pageSize-1), (r.End+pageSize-1)&^(pageSize-1)
		if start = max(start, a.Offset); start < end {
			list = union(list, both(runsOf([]VMA{a}), []run{{a.Start + start - a.Offset, a.Start + end - a.Offset}}))
		}
	}
	return list
}

// readable is the part of a mapping that is not beyond the end of its file.
func (f *fileFinder) readable(a *VMA) []run {
	low, high := uint64(0), a.Size()/pageSize // pages that are there at least, and at most
	var one [1]byte
	for low < high {
		middle := (low + high + 1) / 2
		if _, err := f.memory.ReadAt(one[:], int64(a.Start+(middle-1)*pageSize)); err == nil {
			low = middle
		} else {
			high = middle - 1
		}
	}
	there := minus([]run{{a.Start, a.Start + low*pageSize}}, nil)
	f.beyond = append(f.beyond, minus(runsOf([]VMA{*a}), there)...)
	return there
}

// checkLayer refuses a process of which the zygote has mapped a file that the cell has
// come to write since it was looked at: by whoever serves its files, for it stands still.
func (s *State) checkLayer() error {
	if s.layer == nil {
		return nil
	}
	s.layer = newLayerMap(s.layer.writes)
	for _, a := range s.vmas {
		if !a.mapsFile(false) || kernelVMA(a) {
			continue
		}
		file, written, err := s.layer.open(a.Name)
		if file != nil {
			file.Close()
		}
		if err == nil && written {
			err = s.refuse(true, "maps %s, which is being changed", a.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
