package lifecycle

import (
	"fmt"

	"aether/lab"
)

// Targets that cells are held to.
const (
	targetColdBwrap = 0.2
	targetColdCrun  = 0.05
	targetTailBwrap = 1.0
	targetExecUS    = 300
	targetExecNear  = 1.5
	targetIdleKiB   = 350
	targetIdleLive  = 1000
	targetChurn     = 2.0
)

// judge holds the row of the engine itself against every target.
func judge(r Report) []lab.Verdict {
	cold, bwrap, crun := lab.Find(r.Cold, nameCell), lab.Find(r.Cold, nameBwrap), lab.Find(r.Cold, nameCrun)
	exec, near := lab.Find(r.Exec, nameCell), lab.Find(r.Exec, nameNear)
	return []lab.Verdict{
		lab.AtMost("cold spawn, median", "of bwrap's median", lab.Of(cold.MedianUS, bwrap.MedianUS), targetColdBwrap, cold.Parts),
		lab.AtMost("cold spawn, median", "of crun's median", lab.Of(cold.MedianUS, crun.MedianUS), targetColdCrun, cold.Parts),
		lab.AtMost("cold spawn, p99", "of bwrap's median", lab.Of(cold.P99US, bwrap.MedianUS), targetTailBwrap, cold.TailParts),
		lab.AtMost("exec into a living cell, median", "us", exec.MedianUS, targetExecUS, exec.Parts),
		lab.AtMost("the same by the guest service in this program", "times that", lab.Of(near.MedianUS, exec.MedianUS), targetExecNear, near.Parts),
		judgeIdle(r.Idle),
		judgeChurn(r.Churn),
	}
}

func judgeIdle(rows []Footprint) lab.Verdict {
	row := find(rows, func(f Footprint) bool { return f.Name == nameCell })
	name := fmt.Sprintf("idle memory of a cell, %d live", targetIdleLive)
	if row.Live < targetIdleLive {
		return lab.Undecided(name, "KiB", targetIdleKiB, fmt.Sprintf("only %d were alive", row.Live))
	}
	return lab.AtMost(name, "KiB", row.EachKiB, targetIdleKiB, row.Parts)
}

func judgeChurn(rows []Rate) lab.Verdict {
	ours := find(rows, func(r Rate) bool { return r.Name == nameCell })
	theirs := find(rows, func(r Rate) bool { return r.Name == nameBwrap })
	return lab.AtLeast("churn", "times bwrap's", lab.Of(ours.PerSecond, theirs.PerSecond), targetChurn, ours.Parts)
}

// find gives the row, or a zero one.
func find[R any](rows []R, is func(R) bool) (none R) {
	for _, row := range rows {
		if is(row) {
			return row
		}
	}
	return none
}
