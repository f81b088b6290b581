package run

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"aether/lab/score"
	"aether/profile"
)

// disagrees is by how much a measured score may differ from the profile's without a word.
const disagrees = 0.2

// judges make the score of an axis of its figures and facts, with a sentence on what it
// rests on, or say what is not there.
var judges = map[string]func(Axis) (score float64, why, absent string){
	profile.StartLatency.String(): judgeStart,
	profile.Density.String():      judgeDensity,
	profile.Isolation.String():    judgeIsolation,
	profile.Snapshotting.String(): judgeSnapshotting,
	profile.AgentControl.String(): judgeControl,
}

func (a *Axis) score() {
	value, why, absent := judges[a.Axis](*a)
	a.Why, a.Absent = why, absent
	if absent == "" {
		a.Score = &value
	}
}

// missing is why a figure is not there.
func (a Axis) missing(figure string) string {
	for _, m := range a.Missing {
		if m.What == figure {
			return m.Reason
		}
	}
	for _, m := range a.Missing {
		if m.What == "" {
			return m.Reason
		}
	}
	return fmt.Sprintf("the run was stopped before %s was measured", figure)
}

func micros(us float64) time.Duration { return time.Duration(us * float64(time.Microsecond)) }

func judgeStart(a Axis) (float64, string, string) {
	cold := a.Figure(Cold, 1)
	if cold == nil {
		return 0, "", a.missing(Cold)
	}
	fastest, way := cold.Median, "no way is faster"
	for _, name := range []string{Restore, Fork} {
		if f := a.Figure(name, 1); f != nil && f.Median < fastest {
			fastest, way = f.Median, fmt.Sprintf("by %s %v", name, shown(f.Median))
		}
	}
	return score.Start(micros(cold.Median), micros(fastest)), fmt.Sprintf("a cold start takes %v to the first byte; %s", shown(cold.Median), way), ""
}

// shown is a time of three digits.
func shown(us float64) time.Duration {
	d := micros(us)
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d >= unit {
			return d.Round(unit / 100)
		}
	}
	return d
}

// Idle is what each idle sandbox holds of the host, in KiB, with as many as were alive at
// most. What processes hold is a floor that no noise of the host can take away; nothing is
// said where neither is above zero.
func (a Axis) Idle() (kib float64, ok bool) {
	for _, name := range []string{Memory, PSS} {
		if f := a.last(name); f != nil {
			kib = max(kib, f.Median)
		}
	}
	return kib, kib > 0
}

func judgeDensity(a Axis) (float64, string, string) {
	memory := a.last(Memory)
	if memory == nil {
		return 0, "", a.missing(Memory)
	}
	busy, pss := 0.0, 0.0
	if f := a.last(Processors); f != nil {
		busy = f.Median
	}
	if f := a.last(PSS); f != nil {
		pss = f.Median
	}
	held, ok := a.Idle()
	if !ok {
		return 0, "", "what idle sandboxes hold is lost in what else the host does: repeat the run when it is quiet"
	}
	why := fmt.Sprintf("each of %v idle sandboxes holds %.0f KiB of the host (%.0f by what it has available, %.0f in processes) and keeps %.4f of a processor busy",
		memory.At, held, memory.Median, pss, busy)
	return score.Density(held, busy), why, ""
}

// judgeIsolation takes what the probes made of it.
func judgeIsolation(a Axis) (float64, string, string) {
	tried := a.Figure(Resistance, 0)
	if tried == nil {
		return 0, "", a.missing("")
	}
	failed, unknown := 0, 0
	for _, f := range a.Facts {
		if !f.Holds {
			failed++
		}
	}
	for _, m := range a.Missing {
		if m.What != "" {
			unknown++
		}
	}
	why := fmt.Sprintf("of %d probes from inside, %d found something that they should not, and %d could not be judged", len(a.Facts)+unknown, failed, unknown)
	if calls := a.Figure(HostCalls, 0); calls != nil {
		why += fmt.Sprintf("; %.0f system calls of the host's kernel are within reach", calls.Median)
	}
	return tried.Median, why, ""
}

func judgeSnapshotting(a Axis) (float64, string, string) {
	best, why := 0.0, ""
	for _, way := range []struct{ name, still string }{{Fork, StillFork}, {Restore, StillSnapshot}} {
		branch := a.Figure(way.name, ScoredMiB)
		if branch == nil {
			continue
		}
		kept := score.Kept{Files: a.holds(Files, way.name), Memory: a.holds(LiveMemory, way.name),
			Descriptors: a.holds(Descriptors, way.name), Sockets: a.holds(Sockets, way.name),
			Connections: a.holds(Connections, way.name)}
		c := score.Copying{Branch: micros(branch.Median), Still: micros(branch.Median)}
		if f := a.Figure(way.still, ScoredMiB); f != nil {
			c.Still = micros(f.Median)
		}
		if f := a.Figure(Shared, ScoredMiB); f != nil && way.name == Fork {
			c.Shared = f.Median
		}
		if value := score.Snapshotting(kept, c); value >= best {
			best = value
			why = fmt.Sprintf("by %s, %s; with %d MiB of live memory a copy answers after %v, its source stands still for %v and %.0f%% of the memory is shared",
				way.name, keptText(kept), ScoredMiB, shown(branch.Median), c.Still.Round(10*time.Microsecond), 100*c.Shared)
		}
	}
	if why != "" {
		return best, why, ""
	}
	if proved(a.Facts) {
		return 0, "nothing of a running sandbox is kept: " + cmp.Or(a.missing(Fork), a.missing(Restore)), ""
	}
	return 0, "", a.missing(Fork)
}

func proved(facts []Fact) bool { return len(facts) > 0 }

func keptText(k score.Kept) string {
	text := ""
	for _, part := range []struct {
		kept bool
		name string
	}{{k.Files, "files"}, {k.Memory, "memory"}, {k.Descriptors, "descriptors"}, {k.Sockets, "sockets"}, {k.Connections, "connections"}} {
		if part.kept {
			text += ", " + part.name
		}
	}
	if text == "" {
		return "nothing is kept"
	}
	return text[2:] + " are kept"
}

// holds says whether a fact was shown by a way.
func (a Axis) holds(fact, by string) bool {
	for _, f := range a.Facts {
		if f.Fact == fact && f.By == by && f.Holds {
			return true
		}
	}
	return false
}

func judgeControl(a Axis) (float64, string, string) {
	counts := map[string]int{}
	holds := map[string]int{}
	for _, f := range a.Facts {
		counts[f.By]++
		if f.Holds {
			holds[f.By]++
		}
	}
	facts := counts[Through]
	if facts == 0 || counts[Native] != facts {
		return 0, "", a.missing("")
	}
	why := fmt.Sprintf("of %d facts, %d hold by its own interface and %d through Aether", facts, holds[Native], holds[Through])
	return score.Control(holds[Native], holds[Through], facts), why, ""
}

// compareWith puts the profile's score beside the measured one.
func (a *Axis) compareWith(axis profile.Axis, system string) {
	for _, judged := range profile.All() {
		if judged.Name() != system {
			continue
		}
		p := judged.Profile()
		curated := p.Score(axis).Float()
		a.Curated = &curated
		if a.Score == nil || math.Abs(*a.Score-curated) <= disagrees {
			return
		}
		a.Disagreement = fmt.Sprintf("measured %+.2f from the profile's %.2f. The profile says: %s Here, %s. %s",
			*a.Score-curated, curated, p.Evidence[axis], a.Why, scales[a.Axis])
	}
}

// scales say how the lab's scale of an axis differs from the profiles'.
var scales = map[string]string{
	profile.StartLatency.String(): "The profiles call everything under 100 ms the best; the lab's scale goes down to 1 ms, and counts the guest service and the first command.",
	profile.Density.String():      "The profiles judge a class of systems; the lab counts every KiB that the host misses, with the guest service and the kernel's share.",
	profile.Isolation.String():    "The profiles judge a boundary by its history too; the lab tries it from inside.",
	profile.Snapshotting.String(): "The profiles judge what a system can be made to do; the lab counts what its driver does here, and what a running program still has afterwards.",
	profile.AgentControl.String(): "The profiles judge a system's own interface; the lab counts facts that a call has shown, half of them through Aether.",
}
