package main

import "fmt"

// Targets that cells are held to.
const (
	targetColdBwrap = 0.2
	targetColdCrun  = 0.05
	targetTailBwrap = 1.0
	targetExecUS    = 300
	targetIdleKiB   = 350
	targetIdleLive  = 1000
	targetChurn     = 1.8
)

// verdict is one target and whether it was met.
type verdict struct {
	Target string `json:"target"`
	Unit   string `json:"unit"`
	// Value and Limit are absent if the target could not be judged; Open says why.
	Value float64 `json:"value,omitempty"`
	Limit float64 `json:"limit,omitempty"`
	Met   bool    `json:"met"`
	Open  string  `json:"open,omitempty"`
	// MissedBy is the share of the limit by which it was missed.
	MissedBy float64 `json:"missed_by,omitempty"`
	// SpentOn is where the figure of a missed target comes from.
	SpentOn     []part `json:"spent_on,omitempty"`
	SpentOnUnit string `json:"spent_on_unit,omitempty"`
}

// judge holds the row of the engine itself against every target.
func judge(r report) []verdict {
	cold, bwrap, crun := findLatency(r.Cold, nameCell), findLatency(r.Cold, nameBwrap), findLatency(r.Cold, nameCrun)
	exec := findLatency(r.Exec, nameCell)
	return []verdict{
		atMost("cold spawn, median", "of bwrap's median", of(cold.MedianUS, bwrap.MedianUS), targetColdBwrap).spent("us", cold.Parts),
		atMost("cold spawn, median", "of crun's median", of(cold.MedianUS, crun.MedianUS), targetColdCrun).spent("us", cold.Parts),
		atMost("cold spawn, p99", "of bwrap's median", of(cold.P99US, bwrap.MedianUS), targetTailBwrap).spent("us", cold.TailParts),
		atMost("exec into a living cell, median", "us", exec.MedianUS, targetExecUS).spent("us", exec.Parts),
		judgeIdle(r.Idle),
		judgeChurn(r.Churn),
	}
}

func judgeIdle(rows []footprint) verdict {
	row := find(rows, func(f footprint) bool { return f.System == nameCell })
	name := fmt.Sprintf("idle memory of a cell, %d live", targetIdleLive)
	if row.Live < targetIdleLive {
		return verdict{Target: name, Unit: "KiB", Open: fmt.Sprintf("only %d were alive", row.Live)}
	}
	return atMost(name, "KiB", row.EachKiB, targetIdleKiB).spent("KiB", row.Parts)
}

func judgeChurn(rows []rate) verdict {
	ours := find(rows, func(r rate) bool { return r.System == nameCell })
	theirs := find(rows, func(r rate) bool { return r.System == nameBwrap })
	v := verdict{Target: "churn", Unit: "times bwrap's", Value: of(ours.PerSecond, theirs.PerSecond), Limit: targetChurn}
	v.Met = v.Value >= v.Limit
	v.MissedBy = 1 - v.Value/v.Limit
	return v.spent("us", ours.Parts)
}

// atMost is the verdict on a figure that must not be above the limit.
func atMost(target, unit string, value, limit float64) verdict {
	return verdict{Target: target, Unit: unit, Value: value, Limit: limit, Met: value <= limit, MissedBy: value/limit - 1}
}

// spent completes a verdict: a miss is explained, a figure that is not there is
// no success.
func (v verdict) spent(unit string, parts []part) verdict {
	switch {
	case v.Value == 0:
		return verdict{Target: v.Target, Unit: v.Unit, Open: "a figure that it needs was not measured"}
	case v.Met:
		v.MissedBy = 0
	default:
		v.SpentOn, v.SpentOnUnit = parts, unit
	}
	return v
}

func findLatency(rows []latency, name string) latency {
	return find(rows, func(l latency) bool { return l.System == name })
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
