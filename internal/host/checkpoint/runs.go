package checkpoint

// run is a range of addresses. Lists of runs are in order and do not overlap.
type run struct {
	Start uint64 `json:"start"`
	End   uint64 `json:"end"`
}

func (r run) size() uint64 { return r.End - r.Start }

// minus gives what of the one list the other does not cover.
func minus(list, less []run) []run {
	var rest []run
	for _, r := range list {
		for len(less) > 0 && less[0].End <= r.Start {
			less = less[1:]
		}
		for _, l := range less {
			if l.Start >= r.End {
				break
			}
			if r.Start < l.Start {
				rest = append(rest, run{r.Start, l.Start})
			}
			r.Start = max(r.Start, min(l.End, r.End))
		}
		if r.Start < r.End {
			rest = append(rest, r)
		}
	}
	return rest
}

// both gives what the two lists have in common.
func both(a, b []run) (common []run) {
	c := cursor{b}
	for _, r := range a {
		common = append(common, c.within(r)...)
	}
	return common
}

// merged puts two lists that do not overlap together.
func merged(a, b []run) (list []run) {
	for len(a) > 0 || len(b) > 0 {
		if len(b) == 0 || len(a) > 0 && a[0].Start < b[0].Start {
			list, a = extend(list, a[0]), a[1:]
		} else {
			list, b = extend(list, b[0]), b[1:]
		}
	}
	return list
}

// extend adds a run to a list, as part of the last if it follows that one.
func extend(list []run, r run) []run {
	if last := len(list) - 1; last >= 0 && list[last].End == r.Start {
		list[last].End = r.End
		return list
	}
	return append(list, r)
}

// cursor goes through a list once, for ranges that are asked for in order.
type cursor struct{ rest []run }

// within gives what of the list is in a range.
func (c *cursor) within(r run) (list []run) {
	for len(c.rest) > 0 && c.rest[0].End <= r.Start {
		c.rest = c.rest[1:]
	}
	for _, next := range c.rest {
		if next.Start >= r.End {
			break
		}
		list = append(list, run{max(r.Start, next.Start), min(r.End, next.End)})
	}
	return list
}

// runsOf are the addresses of mappings, but those of the kernel.
func runsOf(areas []VMA) (list []run) {
	for _, a := range areas {
		if !kernelVMA(a) {
			list = append(list, run{a.Start, a.End})
		}
	}
	return list
}

// kept finds which addresses show the same thing in two lists of mappings: the same
// place of the same file, or memory of the process's own.
func kept(old, now []VMA) []run {
	var list []run
	for _, n := range now {
		for len(old) > 0 && old[0].End <= n.Start {
			old = old[1:]
		}
		for _, o := range old {
			if o.Start >= n.End {
				break
			}
			if alike(o, n) {
				list = append(list, run{max(o.Start, n.Start), min(o.End, n.End)})
			}
		}
	}
	return list
}

func alike(a, b VMA) bool {
	switch {
	case kernelVMA(a) || kernelVMA(b) || a.Shared || b.Shared || a.file() != b.file() || a.layered != b.layered:
		return false
	case a.file():
		return a.Inode == b.Inode && a.Name == b.Name && a.Offset-a.Start == b.Offset-b.Start
	}
	return a.has("gd") == b.has("gd") && a.has("wf") == b.has("wf")
}
