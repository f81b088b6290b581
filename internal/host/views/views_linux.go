package views

import (
	"os"
	"slices"
	"strings"
)

// Bind shows a directory of the host inside.
type Bind struct{ Source, Target string }

// View is a directory of the host that is shown, or a file that is mounted in one.
type View struct {
	Bind
	File bool
	// Itself says that the directory is shown itself, with what is mounted in it,
	// and not through an overlay.
	Itself bool
}

// Of gives what to show. An overlay does not look into what is mounted below its
// layers, so root shows each of those mounts by itself. The kernel lets no ordinary
// user, who has a single id, see a directory without what is mounted in it, so that
// such a one cannot be the layer of an overlay there.
func Of(binds []Bind, single bool) (list []View, err error) {
	if len(binds) == 0 {
		return nil, nil
	}
	mounts, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return nil, err
	}
	for _, bind := range binds {
		points := mountsBelow(string(mounts), bind.Source)
		list = append(list, View{Bind: bind, Itself: single && len(points) > 0})
		if single {
			continue
		}
		for _, point := range points {
			info, err := os.Stat(point)
			if err != nil {
				continue // what root cannot look at, nobody in a sandbox could
			}
			target := bind.Target + strings.TrimPrefix(point, bind.Source)
			list = append(list, View{Bind: Bind{point, target}, File: !info.IsDir()})
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
	if !strings.Contains(field, `\`) {
		return field
	}
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(field)
}
