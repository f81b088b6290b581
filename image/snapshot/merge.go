package snapshot

import "sort"

// merge joins what a sandbox wrote to what the snapshot that it was restored from
// had written before. Both are sorted, and so is the result: one layer that shows
// the same as the two.
func merge(lower, upper []entry) []entry {
	gone, at, last := make([]bool, len(lower)), make(map[text]int, len(lower)), int64(0)
	for i, e := range lower {
		at[e.Path] = i
		last = max(last, e.Same)
	}
	list := make([]entry, 0, len(lower)+len(upper))
	for _, e := range upper {
		if e.Same > 0 {
			e.Same += last // the numbers of the two mean different files
		}
		i, covers := at[e.Path]
		if e.Kind != kindDir || e.Opaque || covers && lower[i].Kind != kindDir {
			hide(lower, gone, string(e.Path))
		}
		if covers {
			gone[i] = true
			// What the image has below stays hidden, by whatever hid it.
			e.Opaque = e.Kind == kindDir && (e.Opaque || lower[i].Opaque || lower[i].Kind != kindDir)
		}
		list = append(list, e)
	}
	for i, e := range lower {
		if !gone[i] {
			list = append(list, e)
		}
	}
	order(list)
	return list
}

// hide marks everything below a path, which is one run of a sorted list: the
// byte after the slash is a zero.
func hide(list []entry, gone []bool, path string) {
	from := sort.Search(len(list), func(i int) bool { return string(list[i].Path) >= path+"/" })
	for i := from; i < len(list) && string(list[i].Path) < path+"0"; i++ {
		gone[i] = true
	}
}
