package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"aether/internal/host/confine"
)

// Files makes or opens the files of an image, each by a name of its own: what is in
// memory and in files without a name.
type Files func(name string) (*os.File, error)

func pagesName(place int) string { return fmt.Sprintf("memory-%d", place) }

func contentName(place int) string { return fmt.Sprintf("content-%d", place) }

// Encode writes the checkpoint: the image, and files. The cell may have gone on, or be
// gone; stamps are of the files that its processes had in their memory then. zygote
// is the number of the process that has the pages of the one at a place which has none
// in a file. ahead is how far the cell's clocks are ahead of this program's. Errors:
// Conflict for what cannot be kept.
func (c *Checkpoint) Encode(create Files, stamps map[string]Stamp, ahead time.Duration, zygote func(place int) int) (*Image, error) {
	machine, err := ThisMachine()
	if err != nil {
		return nil, err
	}
	machine.Clock += ahead
	image, places := &Image{Machine: machine}, map[*Process]int{nil: -1}
	for i, p := range c.Processes {
		places[p] = i
		if err := image.add(p, places[p.Parent], stamps); err != nil {
			return nil, err
		}
		if err := writeTo(create, pagesName(i), func(f *os.File) error { return p.writePages(f, i, zygote) }); err != nil {
			return nil, err
		}
	}
	for i, content := range image.Contents {
		if err := writeTo(create, contentName(i), content.write); err != nil {
			return nil, err
		}
	}
	return image, nil
}

func writeTo(create Files, name string, write func(*os.File) error) error {
	f, err := create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// writePages writes the process's own pages, one after another.
func (p *Process) writePages(to *os.File, place int, zygote func(place int) int) error {
	if p.Pages == nil {
		return p.State.writeMemory(to, zygote(place))
	}
	info, err := p.Pages.Stat()
	if err == nil {
		_, err = io.Copy(to, io.NewSectionReader(p.Pages, 0, info.Size()))
	}
	return err
}

// add adds a process to the image.
func (im *Image) add(p *Process, parent int, stamps map[string]Stamp) error {
	if err := im.stamp(p.State, stamps); err != nil {
		return err
	}
	out := processImage{Parent: parent, Orphan: p.Orphan, Was: p.HostPID, State: p.State.encode(), Place: p.Place.encode()}
	for _, d := range p.Descriptors {
		out.Descriptors = append(out.Descriptors, descriptorImage{d, text(d.Target), im.contentIndex(d.Content)})
	}
	for _, m := range p.Mappings {
		out.Mappings = append(out.Mappings, mappingImage{m, text(m.Path), im.contentIndex(m.Content)})
	}
	im.Processes = append(im.Processes, out)
	return nil
}

// contentIndex is where a content is in the image, to which it is added if need be.
func (im *Image) contentIndex(c *Content) *int {
	if c == nil {
		return nil
	}
	at := slices.Index(im.Contents, c)
	if at < 0 {
		at = len(im.Contents)
		im.Contents = append(im.Contents, c)
	}
	return &at
}

// write writes the content without its holes.
func (c *Content) write(to *os.File) error {
	for _, r := range c.Data {
		if _, err := io.CopyN(to, io.NewSectionReader(c.file, int64(r.Start), int64(r.size())), int64(r.size())); err != nil {
			return err
		}
	}
	return nil
}

func (s *State) encode() stateImage {
	out := stateImage{NSPid: s.NSPid, Name: text(s.Name), SyscallAt: s.syscallAt, Own: s.own, attributes: s.attributes}
	for _, a := range s.vmas {
		if a.Name != "[vsyscall]" { // every process has it, and nobody can move it
			out.VMAs = append(out.VMAs, vmaImage{a.Start, a.End, uint8(protection(a)), a.Offset, a.Inode, text(a.Name), a.flags})
		}
	}
	for _, t := range s.threads {
		out.Threads = append(out.Threads, t.threadState)
	}
	return out
}

func (p Place) encode() placeImage {
	return placeImage{Dir: text(p.Dir), Root: text(p.Root), Program: text(p.Program), Group: p.Group, Session: p.Session, Terminal: p.Terminal,
		UID: p.UID, GID: p.GID, Groups: p.Groups}
}

func (p Place) credentials() confine.Credentials {
	return confine.Credentials{UID: p.UID, GID: p.GID, Groups: p.Groups}
}

// writeMemory writes the process's own pages, one after another, from its zygote.
func (s *State) writeMemory(to io.Writer, pid int) error {
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return err
	}
	defer memory.Close()
	for _, r := range s.own {
		if _, err := io.CopyN(to, io.NewSectionReader(memory, int64(r.Start), int64(r.size())), int64(r.size())); err != nil {
			return errors.Join(errShort, err)
		}
	}
	return nil
}
