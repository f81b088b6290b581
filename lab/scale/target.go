package scale

import (
	"fmt"

	"aether/lab"
)

// Targets that growth is held to.
const (
	few, many         = 100, 10_000
	targetLife        = 1.5
	targetLifeTail    = 2
	targetFork        = 1.3
	targetForkFew     = 10
	targetForkMany    = 4000
	targetHostKiB     = 300
	targetProgramKiB  = 5
	targetDescriptors = 1
	targetEndMS       = 3
)

// judge holds a report against every target.
func judge(r Report) []lab.Verdict {
	low, high := r.level(few), r.level(many)
	life := fmt.Sprintf("made, used and ended beside %d, beside %d", many, few)
	list := []lab.Verdict{
		lab.AtMost(life+": median", "times", lab.Of(high.Life.MedianUS, low.Life.MedianUS), targetLife, high.Life.Parts),
		lab.AtMost(life+": p99", "times", lab.Of(high.Life.P99US, low.Life.P99US), targetLifeTail, high.Life.TailParts),
		lab.AtMost(fmt.Sprintf("a fork beside %d, beside %d", targetForkMany, targetForkFew), "times",
			lab.Of(r.level(targetForkMany).Fork.MedianUS, r.level(targetForkFew).Fork.MedianUS), targetFork, nil),
	}
	var each Each
	if high.Each != nil {
		each = *high.Each
	}
	list = append(list,
		lab.AtMost(fmt.Sprintf("each of %d idle, of the host's memory", many), "KiB", each.HostKiB, targetHostKiB, nil),
		lab.AtMost("the same, of this program's", "KiB", each.ProgramKiB, targetProgramKiB, nil),
		lab.AtMost("the same, open descriptors", "each", each.Descriptors, targetDescriptors, nil))
	if r.Ending == nil || r.Ending.Sandboxes < many {
		return append(list, lab.Undecided(fmt.Sprintf("the end of %d", many), "ms each", targetEndMS, "so many were not alive"))
	}
	return append(list, lab.AtMost(fmt.Sprintf("the end of %d, by %d workers", r.Ending.Sandboxes, r.Ending.Workers), "ms each", r.Ending.EachUS/1000, targetEndMS, nil))
}
