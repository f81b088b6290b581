package checkpoint

import (
	"fmt"
	"io/fs"

	"aether/internal/host/confine"
	"aether/internal/host/inroot"
	"aether/sandbox"
)

// Stamp tells whether a file is still what it was.
type Stamp struct {
	size, nanos int64 // nanos is when it was modified
}

// fileImage is a file that processes have in their memory.
type fileImage struct {
	Name     text  `json:"name"`
	Size     int64 `json:"size"`
	Modified int64 `json:"modified"` // in nanoseconds
}

// Stamps tells of the files that a process has in its memory, which are in that
// root. It must be stopped.
func Stamps(pid int, root *inroot.Root, into map[string]Stamp) error {
	areas, err := readMaps(pid)
	if err != nil {
		return err
	}
	for i := range areas {
		if escaped(areas[i].Name) {
			if err := areas[i].readName(pid); err != nil {
				return err
			}
		}
	}
	for _, name := range mappedFiles(areas) {
		if _, known := into[name]; known {
			continue
		}
		stamp, err := stampOf(root, name)
		if err != nil {
			continue // refused when it is missing: it may be one of those that are shared
		}
		into[name] = stamp
	}
	return nil
}

func stampOf(root *inroot.Root, name string) (Stamp, error) {
	info, err := root.Stat(name)
	if err != nil {
		return Stamp{}, err
	}
	if !info.Mode.IsRegular() {
		return Stamp{}, fmt.Errorf("checkpoint: %.200q is no plain file", name)
	}
	return Stamp{info.Size, info.Modified.UnixNano()}, nil
}

// mappedFiles are the paths of what mappings show, each once.
func mappedFiles(areas []VMA) (list []string) {
	seen := map[string]bool{}
	for _, a := range areas {
		if a.file() && !kernelVMA(a) && !a.Shared && !seen[a.Name] {
			seen[a.Name] = true
			list = append(list, a.Name)
		}
	}
	return list
}

// stamp adds the files of a process to the image.
func (im *Image) stamp(s *State, stamps map[string]Stamp) error {
	for _, name := range mappedFiles(s.vmas) {
		stamp, ok := stamps[name]
		if !ok {
			return s.refuse(false, "maps %s, which is not to be found there", name)
		}
		if im.stamped == nil {
			im.stamped = map[string]bool{}
		}
		if !im.stamped[name] {
			im.stamped[name] = true
			im.Files = append(im.Files, fileImage{text(name), stamp.size, stamp.nanos})
		}
	}
	return nil
}

// checkFiles wants all files that processes have in their memory to be what they
// were: half of a program is in memory, the other half is read when it is needed.
func (im *Image) checkFiles(list []*Process, root *inroot.Root) error {
	was := map[string]Stamp{}
	for _, f := range im.Files {
		was[string(f.Name)] = Stamp{f.Size, f.Modified}
	}
	for _, p := range list {
		for _, name := range mappedFiles(p.State.vmas) {
			before, ok := was[name]
			if !ok {
				return damaged("nothing is known of %.200q", name)
			}
			now, err := stampOf(root, name)
			if err != nil || now != before {
				return anotherFile(name, err)
			}
		}
	}
	return nil
}

func anotherFile(name string, err error) error {
	return &sandbox.Error{Class: sandbox.Conflict, Field: "snapshot", Err: err, Remedy: "restore its files alone, or bring the old file back",
		Reason: fmt.Sprintf("its processes were running with %.200q, which is another file now", name)}
}

// Check says beforehand what Decode would refuse: another machine, or files that were
// changed. look tells of a file of the root, and whether it can be told of.
func (im *Image) Check(look func(path string) (fs.FileInfo, bool, error)) error {
	if err := im.checkMachine(); err != nil {
		return err
	}
	for _, was := range im.Files {
		info, known, err := look(string(was.Name))
		if known && (err != nil || info.Size() != was.Size || info.ModTime().UnixNano() != was.Modified) {
			return anotherFile(string(was.Name), err)
		}
	}
	return nil
}

// checkMachine wants this machine to be like the one of the processes, whose clocks a cell
// can have where the kernel lets it.
func (im *Image) checkMachine() error {
	machine, err := ThisMachine()
	if err != nil {
		return err
	}
	behind, err := im.Behind()
	if err == nil && behind > 0 {
		err = confine.OwnClocks()
	}
	if err != nil {
		return err
	}
	machine.Clock += behind
	return machine.Runs(im.Machine)
}
