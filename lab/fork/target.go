package fork

import (
	"fmt"

	"aether/lab"
)

// Targets that forks are held to.
const (
	targetFirstMS   = 2
	targetOfFresh   = 0.02
	targetPauseMS   = 1
	targetCrowd     = 1000
	targetCrowdSecs = 3
	targetCrowdMiB  = 1.2 * 1024
	targetClaimMS   = 0.15
	targetNext      = 1.3
	targetBusy      = 1.5
	targetBusyTail  = 3
)

// judge holds a report against every target.
func judge(r Report) []lab.Verdict {
	first, fresh := lab.Find(r.First, rowFork), lab.Find(r.First, rowFresh)
	pause, claim := lab.Find(r.Pause, rowFork), lab.Find(r.Claim, rowClaim)
	busy, plain := lab.Find(r.Busy, rowFork), lab.Find(r.Busy, rowZygote)
	var crowd, one Crowd
	for _, c := range r.Crowds {
		switch c.Children {
		case 1:
			one = c
		case targetCrowd:
			crowd = c
		}
	}
	name := fmt.Sprintf("%d children of a 64 MiB python3", targetCrowd)
	return []lab.Verdict{
		lab.AtMost(rowFork+", to its first reply", "ms", first.MedianUS/1000, targetFirstMS, first.Parts),
		lab.AtMost("the same, beside a fresh start in a sandbox", "of its time", lab.Of(first.MedianUS, fresh.MedianUS), targetOfFresh, first.Parts),
		lab.AtMost("source paused, python3 with 20 modules", "ms", pause.MedianUS/1000, targetPauseMS, nil),
		lab.AtMost(name, "s", crowd.Seconds, targetCrowdSecs, nil),
		lab.AtMost(name, "MiB", crowd.TotalMiB, targetCrowdMiB, nil),
		lab.AtMost("the next fork beside them, and beside one", "times", lab.Of(crowd.NextUS, one.NextUS), targetNext, nil),
		lab.AtMost("claim from a pool, to the first byte", "ms", claim.MedianUS/1000, targetClaimMS, claim.Parts),
		lab.AtMost("a fork beside busy neighbours: median", "times os.fork's", lab.Of(busy.MedianUS, plain.MedianUS), targetBusy, busy.Parts),
		lab.AtMost("the same: p99", "times os.fork's", lab.Of(busy.P99US, plain.P99US), targetBusyTail, busy.TailParts),
	}
}
