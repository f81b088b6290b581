package confine

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"aether/internal/host/blockdev"
)

// FileSystems are all that the cell's processes read and write files of: those of its
// image, of its writes, and of its mounts with what is mounted in them. Nothing can be
// added to a cell that lives.
func (c *Cell) FileSystems() (list []blockdev.FileSystem, err error) {
	for _, source := range c.base.tree.sources() {
		f, err := fileSystemOf(source)
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	upper, err := c.Upper()
	if err != nil {
		return nil, err
	}
	defer upper.Close()
	writes, err := blockdev.At(upper, "what the cell writes")
	if err != nil {
		return nil, err
	}
	// As the cell has them, for a path may lead elsewhere by now.
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", c.init.Pid()))
	if err != nil {
		return nil, fmt.Errorf("confine: %w", err)
	}
	return append(append(list, writes), blockdev.Mounted(string(mounts), c.base.tree.ownOverlay)...), nil
}

// sources are the paths of the host that a cell sees through overlays of its own.
func (t Tree) sources() []string {
	list := slices.Clone(t.Layers)
	for _, v := range t.views {
		list = append(list, v.Source)
	}
	return list
}

func fileSystemOf(path string) (f blockdev.FileSystem, err error) {
	file, err := os.Open(path)
	if err != nil {
		return f, fmt.Errorf("confine: %w", err)
	}
	defer file.Close()
	return blockdev.At(file, path)
}

// ownOverlay tells the overlays of a cell from those of the host that it was given as
// a mount, by the places on its stage that they are made of.
func (t Tree) ownOverlay(options string) bool {
	own := []string{lowerLayers(t)}
	for i := range t.views {
		own = append(own, lower(stageBind+strconv.Itoa(i)))
	}
	return slices.ContainsFunc(strings.Split(options, ","), func(option string) bool { return slices.Contains(own, option) })
}
