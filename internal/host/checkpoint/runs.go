package checkpoint

// run is a range of addresses. Lists of runs are in order and do not overlap.
type run struct{ start, end uint64 }

func (r run) size() uint64 { return r.end - r.start }

// minus gives what of the one list the other does not cover.
func minus(list, less []run) []run {
	var rest []run
	for _, r := range list {
		for len(less) > 0 && less[0].end <= r.start {
			less = less[1:]
		}
		for _, l := range less {
			if l.start >= r.end {
				break
			}
			if r.start < l.start {
				rest = append(rest, run{r.start, l.start})
			}
			r.start = max(r.start, min(l.end, r.end))
		}
		if r.start < r.end {
			rest = append(rest, r)
		}
	}
	return rest
}

// both gives what the two lists have in common.
func both(a, b []run) []run {
	var common []run
	for _, r := range a {
		for len(b) > 0 && b[0].end <= r.start {
			b = b[1:]
		}
		for _, l := range b {
			if l.start >= r.end {
				break
			}
			common = append(common, run{max(r.start, l.start), min(r.end, l.end)})
		}
	}
	return common
}

// merged puts two lists that do not overlap together.
func merged(a, b []run) []run {
	var list []run
	add := func(r run) {
		if last := len(list) - 1; last >= 0 && list[last].end == r.start {
			list[last].end = r.end
			return
		}
		list = append(list, r)
	}
	for len(a) > 0 || len(b) > 0 {
		if len(b) == 0 || len(a) > 0 && a[0].start < b[0].start {
			add(a[0])
			a = a[1:]
		} else {
			add(b[0])
			b = b[1:]
		}
	}
	return list
}

// cursor goes through a list once, for ranges that are asked for in order.
type cursor struct{ rest []run }

// within gives what of the list is in a range.
func (c *cursor) within(r run) (list []run) {
	for len(c.rest) > 0 && c.rest[0].end <= r.start {
		c.rest = c.rest[1:]
	}
	for _, next := range c.rest {
		if next.start >= r.end {
			break
		}
		list = append(list, run{max(r.start, next.start), min(r.end, next.end)})
	}
	return list
}

// runsOf are the addresses of areas, but those of the kernel.
func runsOf(areas []VMA) (list []run) {
	for _, a := range areas {
		if !kernelVMA(a) {
			list = append(list, run{a.Start, a.End})
		}
	}
	return list
}

// kept finds which addresses show the same thing in two lists of areas: the same
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
	case kernelVMA(a) || kernelVMA(b) || a.Shared || b.Shared || a.file() != b.file():
		return false
	case a.file():
		return a.Inode == b.Inode && a.Name == b.Name && a.Offset-a.Start == b.Offset-b.Start
	}
	return a.has("gd") == b.has("gd") && a.has("wf") == b.has("wf")
}
