package confine

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// view is a directory of the host that cells see, or a file that is mounted in one.
type view struct {
	Bind
	file bool
	// itself says that the directory is shown itself, with what is mounted in it,
	// and not through an overlay.
	itself bool
}

// viewsOf gives what to show. An overlay does not look into what is mounted below
// its layers, so root shows each of those mounts by itself. The kernel lets no
// ordinary user see a directory without what is mounted in it, so that such a one
// cannot be the layer of an overlay there.
func viewsOf(binds []Bind, single bool) (list []view, err error) {
	if len(binds) == 0 {
		return nil, nil
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	for _, bind := range binds {
		points := mountsBelow(string(mounts), bind.Source)
		list = append(list, view{Bind: bind, itself: single && len(points) > 0})
		if single {
			continue
		}
		for _, point := range points {
			info, err := os.Stat(point)
			if err != nil {
				continue // what root cannot look at, nobody in a cell could
			}
			target := bind.Target + strings.TrimPrefix(point, bind.Source)
			list = append(list, view{Bind: Bind{point, target}, file: !info.IsDir()})
		}
	}
	return list, nil
}

// mountsBelow finds the mount points below a directory in the text of a mountinfo
// file, each before those below it.
func mountsBelow(mountinfo, dir string) (points []string) {
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if point := unescape(fields[4]); strings.HasPrefix(point, dir+"/") {
			points = append(points, point)
		}
	}
	slices.Sort(points)
	return slices.Compact(points)
}

// unescape undoes how the kernel writes blanks and backslashes.
func unescape(field string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(field)
}

// showViews appends what a cell will see to the stage, or its places alone on one
// that many cells have.
func (s script) showViews(list []view, many bool) {
	for i, v := range list {
		place := "." + stageBind + strconv.Itoa(i)
		var flags uintptr
		if v.itself {
			flags = unix.AT_RECURSIVE
		}
		if v.file {
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
func (s script) attachViews(list []view) {
	for i, v := range list {
		source, target := stageBind+strconv.Itoa(i), stageRoot+v.Target
		if v.file || v.itself {
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
