package confine

import (
	"strconv"

	"aether/internal/host/views"

	"golang.org/x/sys/unix"
)

// showViews appends what a cell will see to the stage, or its places alone on one
// that many cells have.
func (s script) showViews(list []views.View, many bool) {
	for i, v := range list {
		place := "." + stageBind + strconv.Itoa(i)
		var flags uintptr
		if v.Itself {
			flags = unix.AT_RECURSIVE
		}
		if v.File {
			s.file(place)
		} else {
			s.mkdir(place, 0o755)
		}
		if !many {
			s.show(v.Source, place, flags)
		}
	}
}

// attachViews appends the showing in the cell's root.
func (s script) attachViews(list []views.View) {
	for i, v := range list {
		source, target := stageBind+strconv.Itoa(i), stageRoot+v.Target
		if v.File || v.Itself {
			s.bind(source, target)
		} else {
			s.view(source, target)
		}
	}
}

// view shows a directory through an overlay of the cell's own, of which nothing
// can be changed. Its files have inodes of the cell's own, which is what locks,
// leases, watches and hints are kept with: nobody else who has the same directory
// sees or is held up by those of the cell. An overlay has two layers at least.
func (s script) view(dir, target string) {
	s.mount("overlay", target, "overlay", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, lower(dir)+",userxattr")
}

// lower is the option that names the layers of a view.
func lower(dir string) string { return "lowerdir=" + dir + ":" + stageNone }
