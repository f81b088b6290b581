package confine

import (
	"errors"
	"fmt"
	"io"
	"os"

	"aether/internal/host/checkpoint"
	"aether/internal/host/inroot"
	"aether/internal/host/spawn"
)

// Files is where what is in memory and in files without a name is kept, each
// under a name of its own.
type Files func(name string) (*os.File, error)

func memoryName(place int) string { return fmt.Sprintf("memory-%d", place) }

func contentName(place int) string { return fmt.Sprintf("content-%d", place) }

// Keep writes the imprint, all that it takes to Recall it. The cell may have gone
// on, or be gone; stamps are of the files that it had then. Errors: Conflict for
// what cannot be kept.
func (im *Imprint) Keep(create Files, stamps map[string]checkpoint.Stamp) (*checkpoint.Image, error) {
	machine, err := checkpoint.ThisMachine()
	if err != nil {
		return nil, fmt.Errorf("confine: keep an imprint: %w", err)
	}
	doc, places := &checkpoint.Image{Machine: machine}, map[*Twin]int{nil: -1}
	for i, t := range im.Twins {
		places[t] = i
		err := t.keep(doc, places[t.Parent], stamps)
		if err == nil {
			err = writeTo(create, memoryName(i), t.writeMemory)
		}
		if err != nil {
			return nil, fmt.Errorf("confine: keep an imprint: %w", err)
		}
	}
	for i := range doc.Contents {
		if err := writeTo(create, contentName(i), func(f *os.File) error { return doc.WriteContent(i, f) }); err != nil {
			return nil, fmt.Errorf("confine: keep an imprint: %w", err)
		}
	}
	return doc, nil
}

func (t *Twin) keep(doc *checkpoint.Image, parent int, stamps map[string]checkpoint.Stamp) error {
	place := t.Place
	place.Groups = nil
	place.UID, place.GID = t.host.Identity.FromHost(t.Place.UID, t.Place.GID)
	for _, group := range t.Place.Groups {
		_, inside := t.host.Identity.FromHost(0, group)
		place.Groups = append(place.Groups, inside)
	}
	return doc.Add(checkpoint.Process{Parent: parent, Was: t.of, State: t.state, Place: place, Descriptors: t.Descriptors, Mappings: t.Mappings}, stamps)
}

// writeMemory writes what the twin holds, or what was saved in its stead.
func (t *Twin) writeMemory(to *os.File) error {
	if t.Parent == nil {
		return t.state.WriteMemory(to, t.process.Pid())
	}
	info, err := t.saved.Stat()
	if err == nil {
		_, err = io.Copy(to, io.NewSectionReader(t.saved, 0, info.Size()))
	}
	return err
}

func writeTo(create Files, name string, write func(*os.File) error) error {
	f, err := create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// Recall makes an imprint of what was kept, to be spawned in this cell, in which
// nothing has run yet. Errors: Invalid for what Keep did not write, Conflict for
// processes that cannot go on on this machine or with the files of this cell.
func (c *Cell) Recall(doc *checkpoint.Image, open Files) (*Imprint, error) {
	dir, err := c.Root()
	if err != nil {
		return nil, err
	}
	root := inroot.New(dir)
	defer root.Close()
	im, err := c.host.recall(doc, open, root)
	if err != nil {
		return nil, fmt.Errorf("confine: recall an imprint: %w", err)
	}
	return im, nil
}

func (h *Host) recall(doc *checkpoint.Image, open Files, root *inroot.Root) (im *Imprint, err error) {
	machine, err := checkpoint.ThisMachine()
	if err != nil {
		return nil, err
	}
	if err := machine.Runs(doc.Machine); err != nil {
		return nil, err
	}
	contents, err := openContents(len(doc.Contents), open)
	if err != nil {
		return nil, err
	}
	im = &Imprint{}
	list, kept, err := doc.Decode(contents, root)
	if err != nil {
		return nil, err
	}
	im.kept = kept
	if im.keeper, err = spawn.NewThread(func() error { return nil }); err != nil {
		return nil, errors.Join(err, kept.Close())
	}
	if err := h.recallAll(im, list, open); err != nil {
		return nil, errors.Join(err, im.Close())
	}
	return im, nil
}

func openContents(count int, open Files) (files []*os.File, err error) {
	for i := range count {
		f, err := open(contentName(i))
		if err != nil {
			return nil, errors.Join(err, closeAll(files))
		}
		files = append(files, f)
	}
	return files, nil
}

func (h *Host) recallAll(im *Imprint, list []checkpoint.Process, open Files) error {
	// One script makes a whole family, memory and all.
	const large = 4
	at, err := checkpoint.FreeAddressFor(list, large*twinRoom)
	if err != nil {
		return err
	}
	for i, p := range list {
		t := &Twin{host: h, of: p.Was, keeper: im.keeper}
		if p.Parent >= 0 {
			t.Parent = im.Twins[p.Parent]
			t.Parent.Children = append(t.Parent.Children, t)
		} else if t, err = h.newTwinAt(p.Was, at, large, im.keeper); err != nil {
			return err
		}
		im.Twins = append(im.Twins, t)
		t.recalled = true
		if err := t.recall(p, open, memoryName(i)); err != nil {
			return err
		}
	}
	return nil
}

// recall gives a twin what it knows of its process.
func (t *Twin) recall(p checkpoint.Process, open Files, name string) (err error) {
	t.state, t.Descriptors, t.Mappings, t.Place = p.State, p.Descriptors, p.Mappings, p.Place
	uid, gid, err := t.host.Identity.ToHost(p.Place.UID, p.Place.GID)
	if err != nil {
		return err
	}
	t.Place.UID, t.Place.GID, t.Place.Groups = uint32(uid), uint32(gid), nil
	for _, group := range p.Place.Groups {
		_, gid, err := t.host.Identity.ToHost(p.Place.UID, group)
		if err != nil {
			return err
		}
		t.Place.Groups = append(t.Place.Groups, uint32(gid))
	}
	if t.saved, err = open(name); err != nil {
		return err
	}
	return t.state.CheckMemory(t.saved)
}
