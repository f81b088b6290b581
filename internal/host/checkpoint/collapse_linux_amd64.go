package checkpoint

import (
	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// hugePage is how large the pages are that the kernel can make of many.
const hugePage = 2 << 20

// CollapsePages appends the making of huge pages of those that the process has whole, or
// nearly. A child then inherits one entry for each instead of 512, so that it is
// born in a fraction of the time; where it writes, the kernel divides the page
// again. It takes milliseconds for each. A kernel that cannot is let be.
func (s *State) CollapsePages(script *spawn.Script) {
	for _, r := range blocks(s.own) {
		script.Call(unix.SYS_MADVISE, uintptr(r.Start), uintptr(r.size()), unix.MADV_COLLAPSE).MayFail()
	}
}

// blocks finds the aligned ranges of which most pages are in a list.
func blocks(list []run) (dense []run) {
	const most = hugePage / 8 * 7
	block, there := run{}, uint64(0)
	end := func() {
		if there >= most {
			dense = extend(dense, block)
		}
	}
	for _, r := range list {
		for r.Start < r.End {
			if r.Start >= block.End {
				end()
				at := r.Start &^ (hugePage - 1)
				block, there = run{at, at + hugePage}, 0
			}
			part := min(r.End, block.End) - r.Start
			there += part
			r.Start += part
		}
	}
	end()
	return dense
}
