package profile

import (
	"fmt"
	"slices"
	"strings"

	"aether/sandbox"
)

// Scores are a system's five judgments.
type Scores struct {
	StartLatency Score `json:"start_latency"`
	Density      Score `json:"density"`
	Isolation    Score `json:"isolation"`
	Snapshotting Score `json:"snapshotting"`
	AgentControl Score `json:"agent_control"`
}

func (s Scores) list() [axisCount]Score {
	return [...]Score{s.StartLatency, s.Density, s.Isolation, s.Snapshotting, s.AgentControl}
}

// Score is the judgment on one axis.
func (s Scores) Score(a Axis) Score { return s.list()[a] }

func (s Scores) fitness() Fitness {
	var sum Fitness
	for _, score := range s.list() {
		sum += Fitness(score)
	}
	return sum
}

// Profile is the judgment of one system. Its JSON form is stable.
type Profile struct {
	System  System  `json:"system"`
	Fitness Fitness `json:"fitness"`
	Scores
	Boundary sandbox.Boundary `json:"boundary"`
	// Evidence has one line for each axis, in their order.
	Evidence [axisCount]string `json:"evidence"`
	// ByDesign are the axes on which the score, or a part of it, is given for what
	// a system is designed to do, and not for what exists or was measured.
	ByDesign []Axis `json:"by_design"`
}

// IsByDesign is whether the score on an axis is, wholly or in part, given by design.
func (p Profile) IsByDesign(a Axis) bool { return slices.Contains(p.ByDesign, a) }

// Profile is the judgment of the system.
func (s System) Profile() Profile {
	e := systems[s]
	return Profile{System: s, Fitness: e.scores.fitness(), Scores: e.scores, Boundary: e.boundary, Evidence: e.evidence,
		ByDesign: append([]Axis{}, e.byDesign...)} // never nil, so that JSON has a list
}

// Fitness is the unweighted mean of the system's five scores.
func (s System) Fitness() Fitness { return systems[s].scores.fitness() }

// Profiles are the judgments of the systems in the order given; of all systems
// in canonical order where none is given.
func Profiles(of ...System) []Profile {
	if len(of) == 0 {
		of = All()
	}
	list := make([]Profile, len(of))
	for i, s := range of {
		list[i] = s.Profile()
	}
	return list
}

// String is one line, as "docker: fitness 0.65 (start 0.95, ...)".
func (p Profile) String() string {
	parts := make([]string, axisCount)
	for i, a := range Axes() {
		parts[i] = a.Short() + " " + p.Score(a).String()
	}
	return fmt.Sprintf("%s: fitness %s (%s)", p.System, p.Fitness, strings.Join(parts, ", "))
}

// FieldNotes rate a system out of 5, in halves, from practice rather than on the
// five axes.
type FieldNotes struct {
	Isolation   float64 `json:"isolation"`
	Efficiency  float64 `json:"efficiency"`
	Maintenance float64 `json:"maintenance"`
}

// FieldNotes are nil for a system that has none.
func (s System) FieldNotes() *FieldNotes {
	if systems[s].notes == nil {
		return nil
	}
	notes := *systems[s].notes
	return &notes
}
