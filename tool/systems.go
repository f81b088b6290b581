package tool

import (
	"context"
	"strings"

	"aether/profile"
	"aether/sandbox"
)

type systemListArgs struct {
	Usable bool `json:"usable,omitempty" jsonschema:"only those that run here"`
}

type rankArgs struct {
	Weights string   `json:"weights,omitempty" jsonschema:"as isolation=3,start-latency=2"`
	Needs   []string `json:"needs,omitempty" jsonschema:"as isolation>=0.8"`
}

type compareArgs struct {
	A string `json:"a"`
	B string `json:"b"`
}

func systemTools() []*Tool {
	return []*Tool{
		define("system_list", Reads, "List isolation systems: whether this host runs each, why not, and what its sandboxes can do.", (*Session).systems),
		define("system_rank", Reads, "Rank isolation systems by curated scores.", (*Session).rank),
		define("system_compare", Reads, "Compare two isolation systems axis by axis, with the evidence.", (*Session).compare),
		define("system_doctor", Reads, "What this host lacks for sandboxes, what that costs and what mends it.", (*Session).doctor),
	}
}

// SystemReport is what this host says of an isolation system.
type SystemReport struct {
	System   string   `json:"system"`
	Boundary string   `json:"boundary"`
	Usable   bool     `json:"usable"`
	Version  string   `json:"version,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	Remedy   string   `json:"remedy,omitempty"`
	Pause    bool     `json:"pause,omitempty"`
	Snapshot string   `json:"snapshot,omitempty"`
	Fork     string   `json:"fork,omitempty"`
	Networks []string `json:"networks,omitempty"`
}

// SystemReports is a list of them.
type SystemReports struct {
	Systems []SystemReport `json:"systems"`
}

func (s *Session) systems(ctx context.Context, in systemListArgs) (SystemReports, error) {
	list, err := s.opts.Backend.Systems(ctx)
	if err != nil {
		return SystemReports{}, err
	}
	reports := SystemReports{[]SystemReport{}}
	for _, one := range list {
		if one.Usable || !in.Usable {
			reports.Systems = append(reports.Systems, reportOf(one))
		}
	}
	return reports, nil
}

func reportOf(s System) SystemReport {
	r := SystemReport{System: s.System, Boundary: s.Boundary.String(), Usable: s.Usable, Version: clip(s.Version, 100), Reason: clip(s.Reason, maxReason), Remedy: clip(s.Remedy, maxReason)}
	if s.Verbs != nil {
		r.Pause, r.Snapshot, r.Fork = s.Verbs.Pause, string(s.Verbs.Snapshot), string(s.Verbs.Fork)
	}
	if s.Networks != nil {
		for _, mode := range []sandbox.NetworkMode{sandbox.EgressNetwork, sandbox.NatNetwork, sandbox.HostNetwork} {
			if s.Networks.Has(mode) {
				r.Networks = append(r.Networks, string(mode))
			}
		}
	}
	return r
}

// Ranking is systems by their fitness, best first.
type Ranking struct {
	Systems []Ranked `json:"systems"`
}

// Ranked is the judgment of a system.
type Ranked struct {
	System   string  `json:"system"`
	Boundary string  `json:"boundary"`
	Fitness  float64 `json:"fitness"`
	// Weighted is its fitness by the weights that were given.
	Weighted     *float64 `json:"weighted,omitempty"`
	StartLatency float64  `json:"start_latency"`
	Density      float64  `json:"density"`
	Isolation    float64  `json:"isolation"`
	Snapshotting float64  `json:"snapshotting"`
	AgentControl float64  `json:"agent_control"`
	// ByDesign are the axes that are judged for what is planned.
	ByDesign []string `json:"by_design,omitempty"`
}

func (s *Session) rank(_ context.Context, in rankArgs) (list Ranking, err error) {
	var weights profile.Weights
	if in.Weights != "" {
		if weights, err = profile.ParseWeights(in.Weights); err != nil {
			return list, ofArgument("weights", err)
		}
	}
	var needs []profile.Need
	for _, text := range in.Needs {
		need, err := profile.ParseNeed(text)
		if err != nil {
			return list, ofArgument("needs", err)
		}
		needs = append(needs, need)
	}
	list.Systems = []Ranked{}
	for _, p := range profile.RankWeighted(weights, profile.Meeting(needs, profile.Profiles())) {
		list.Systems = append(list.Systems, rankedOf(p, weights))
	}
	return list, nil
}

// ofArgument names the argument that an error is about.
func ofArgument(field string, err error) error {
	return &sandbox.Error{Class: sandbox.Invalid, Field: field, Err: err}
}

func rankedOf(p profile.Profile, weights profile.Weights) Ranked {
	r := Ranked{System: p.System.Name(), Boundary: p.Boundary.String(), Fitness: p.Fitness.Float(), StartLatency: p.StartLatency.Float(), Density: p.Density.Float(),
		Isolation: p.Isolation.Float(), Snapshotting: p.Snapshotting.Float(), AgentControl: p.AgentControl.Float()}
	if len(weights) > 0 {
		fitness := weights.Fitness(p)
		r.Weighted = &fitness
	}
	for _, axis := range p.ByDesign {
		r.ByDesign = append(r.ByDesign, axis.String())
	}
	return r
}

// Comparison is how much better one system fits than another.
type Comparison struct {
	A            string  `json:"a"`
	B            string  `json:"b"`
	FitnessDelta float64 `json:"fitness_delta"`
	Axes         []Delta `json:"axes"`
}

// Delta is the difference on one axis, and what the judgments rest on.
type Delta struct {
	Axis      string  `json:"axis"`
	Delta     float64 `json:"delta"`
	EvidenceA string  `json:"evidence_a"`
	EvidenceB string  `json:"evidence_b"`
}

func (s *Session) compare(_ context.Context, in compareArgs) (c Comparison, err error) {
	a, err := profile.Parse(in.A)
	if err != nil {
		return c, ofArgument("a", err)
	}
	b, err := profile.Parse(in.B)
	if err != nil {
		return c, ofArgument("b", err)
	}
	judged := profile.Compare(a, b)
	c = Comparison{A: a.Name(), B: b.Name(), FitnessDelta: judged.FitnessDelta.Float(), Axes: []Delta{}}
	for _, d := range judged.AxisDeltas {
		c.Axes = append(c.Axes, Delta{d.Axis.String(), d.Delta.Float(), a.Profile().Evidence[d.Axis], b.Profile().Evidence[d.Axis]})
	}
	return c, nil
}

// Health is what this host has and lacks for sandboxes.
type Health struct {
	// Usable are the systems that run here, strongest boundary first.
	Usable []string `json:"usable"`
	// Boundary is the strongest that sandboxes here can have.
	Boundary string `json:"strongest_boundary"`
	Gaps     []Gap  `json:"gaps"`
	// Stuck are paused sandboxes that this host can no longer resume; only those who run
	// the engine are told.
	Stuck []string `json:"stuck,omitempty"`
}

// Gap is something that a host lacks for a system.
type Gap struct {
	System  string `json:"system"`
	Missing string `json:"missing"`
	Cost    string `json:"cost"`
	Remedy  string `json:"remedy,omitempty"`
}

func (s *Session) doctor(ctx context.Context, _ none) (Health, error) {
	list, err := s.opts.Backend.Systems(ctx)
	if err != nil {
		return Health{}, err
	}
	h := Health{Usable: []string{}, Boundary: "none", Gaps: []Gap{}}
	for _, boundary := range []sandbox.Boundary{sandbox.HardwareBoundary, sandbox.KernelBoundary, sandbox.ProcessBoundary} {
		for _, one := range list {
			if one.Boundary != boundary || !one.Driver {
				continue
			}
			h.add(one)
		}
	}
	found, err := s.opts.Backend.Doctor(ctx)
	if err != nil && sandbox.ClassOf(err) != sandbox.Denied {
		return Health{}, err
	}
	for _, one := range found.Stuck {
		h.Stuck = append(h.Stuck, one.ID+": "+clip(strings.TrimSpace(one.Reason), 300))
	}
	return h, nil
}

func (h *Health) add(one System) {
	if !one.Usable {
		h.Gaps = append(h.Gaps, Gap{one.System, clip(one.Reason, 300), "its sandboxes cannot be made", clip(one.Remedy, 300)})
		return
	}
	if len(h.Usable) == 0 {
		h.Boundary = one.Boundary.String()
	}
	h.Usable = append(h.Usable, one.System)
	for _, g := range one.Gaps {
		h.Gaps = append(h.Gaps, Gap{one.System, clip(g.Missing, 300), clip(g.Cost, 300), clip(g.Remedy, 300)})
	}
}
