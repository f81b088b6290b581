package network

import (
	"fmt"
	"strings"

	"aether/lab"
)

// Names of the rows.
const (
	rowCell   = "cell"
	rowPasta  = "bwrap, pasta"
	rowSlirp  = "bwrap, slirp4netns"
	rowDocker = "docker, bridge"
	rowVeth   = "plain veth"

	rowWarm        = "cell"
	rowWarmEgress  = "cell, egress"
	rowFresh       = "cell-fresh"
	rowFreshEgress = "cell-fresh, egress"
	rowBwrap       = "bwrap, no network"
)

// Targets that the network is held to.
const (
	targetVeth    = 0.15 // of a stream over plain veth
	targetSlirp   = 1.2  // of a stream over slirp4netns
	targetConnect = 2.0  // times that over plain veth
	targetCreate  = 0.2  // of bwrap's spawn
	targetIdle    = 200  // KiB more than without
)

// Report is everything that was found out. A value that was not measured is absent, never
// zero.
type Report struct {
	// Send and Receive are of one TCP stream, in Gbit/s; Requests are on an open connection,
	// one after the other, in a second.
	Send     []Rate `json:"send_gbit"`
	Receive  []Rate `json:"receive_gbit"`
	Requests []Rate `json:"requests"`
	// Connect is from a connection's begin to the first byte of an answer.
	Connect []lab.Row `json:"connect"`
	// Create is the making of a sandbox.
	Create  []lab.Row     `json:"create"`
	Idle    []Footprint   `json:"idle"`
	Process Process       `json:"aether_net"`
	Targets []lab.Verdict `json:"targets"`
}

// Rate is how much of something a system does in a second.
type Rate struct {
	Name string `json:"name"`
	// Best is that of the best tenth of all turns, and Worst that of the worst of a hundred.
	Best    float64    `json:"best,omitempty"`
	Median  float64    `json:"median,omitempty"`
	Worst   float64    `json:"worst,omitempty"`
	Samples int        `json:"samples,omitempty"`
	Of      lab.Ratios `json:"of,omitempty"`
	Skipped string     `json:"skipped,omitempty"`
}

// rates are rows of what one of something takes, the other way round.
func rates(rows []lab.Row) []Rate {
	list := make([]Rate, len(rows))
	for i, r := range rows {
		second := func(us float64) float64 { return lab.Of(1e6, us) }
		list[i] = Rate{Name: r.Name, Best: second(r.P10US), Median: second(r.MedianUS), Worst: second(r.P99US), Samples: r.Samples, Skipped: r.Skipped}
	}
	lab.Compare(list, ratePeers, func(r *Rate) (string, float64, *lab.Ratios) { return r.Name, r.Median, &r.Of })
	return list
}

var ratePeers = []string{rowVeth, rowSlirp, rowPasta}

// Footprint is what an idle sandbox holds of the host's memory, each of so many: the kernel's
// and that of aether-net, without that of its own processes, which a network does not change.
type Footprint struct {
	Name    string     `json:"name"`
	Live    int        `json:"live"`
	EachKiB float64    `json:"each_kib,omitempty"`
	Parts   []lab.Part `json:"parts,omitempty"`
}

// Process is the memory of aether-net itself, in KiB: with one sandbox, and with all.
type Process struct {
	OneKiB int64 `json:"one_kib,omitempty"`
	AllKiB int64 `json:"all_kib,omitempty"`
	Alive  int   `json:"alive,omitempty"`
}

// EachKiB is what each sandbox after the first adds.
func (p Process) EachKiB() float64 { return float64(p.AllKiB-p.OneKiB) / float64(max(1, p.Alive-1)) }

func (r *Report) complete() {
	lab.CompareRows(r.Connect, rowVeth, rowSlirp, rowPasta)
	lab.CompareRows(r.Create, rowBwrap)
	r.Targets = []lab.Verdict{
		atLeast("one stream, sent", r.Send, rowVeth, targetVeth), atLeast("one stream, sent", r.Send, rowSlirp, targetSlirp),
		atLeast("one stream, received", r.Receive, rowVeth, targetVeth), atLeast("one stream, received", r.Receive, rowSlirp, targetSlirp),
		lab.AtMost("connect to first byte, median", "times plain veth's", lab.Find(r.Connect, rowCell).Of[rowVeth], targetConnect, nil),
		judgeCreate(r.Create), judgeIdle(r.Idle),
	}
}

func atLeast(what string, rows []Rate, peer string, limit float64) lab.Verdict {
	var ratio float64
	for _, r := range rows {
		if r.Name == rowCell {
			ratio = r.Of[peer]
		}
	}
	return lab.AtLeast(what, "of "+peer+"'s", ratio, limit, nil)
}

func judgeCreate(rows []lab.Row) lab.Verdict {
	const what, unit = "what egress adds to the making of a sandbox, median", "of bwrap's spawn"
	with, without, spawn := lab.Find(rows, rowWarmEgress), lab.Find(rows, rowWarm), lab.Find(rows, rowBwrap)
	if with.MedianUS == 0 || without.MedianUS == 0 || spawn.MedianUS == 0 {
		return lab.Undecided(what, unit, targetCreate, "a figure that it needs was not measured")
	}
	return lab.AtMost(what, unit, (with.MedianUS-without.MedianUS)/spawn.MedianUS, targetCreate, nil)
}

func judgeIdle(rows []Footprint) lab.Verdict {
	const unit = "KiB"
	if len(rows) != 2 {
		return lab.Undecided("idle memory of egress", unit, targetIdle, "it was not measured")
	}
	what := fmt.Sprintf("idle memory of egress, %d live", rows[1].Live)
	return lab.AtMost(what, unit, rows[1].EachKiB-rows[0].EachKiB, targetIdle, rows[1].Parts)
}

// Text draws the report for people.
func (r Report) Text() string {
	return strings.Join([]string{
		"One TCP stream, sent from inside, Gbit/s\n" + rateText("%.2f", r.Send),
		"One TCP stream, received inside, Gbit/s\n" + rateText("%.2f", r.Receive),
		"Connect to the first byte of an answer, ms\n" + lab.Times(r.Connect, ratePeers...),
		"Requests of 64 bytes on one connection, in turn, in a second\n" + rateText("%.0f", r.Requests),
		"The making of a sandbox, ms\n" + lab.Times(r.Create, rowBwrap),
		"Memory of an idle sandbox, the kernel's and that of aether-net, KiB\n" + r.idleText(),
		"Targets for the network\n" + lab.Verdicts(r.Targets),
	}, "\n")
}

func rateText(format string, rows []Rate) string {
	table := [][]string{append([]string{"", "best", "median", "worst"}, lab.Against(ratePeers)...)}
	for _, r := range rows {
		if r.Skipped != "" {
			table = append(table, []string{r.Name, "skipped: " + r.Skipped})
			continue
		}
		figures := []string{r.Name, lab.Figure(format, r.Best), lab.Figure(format, r.Median), lab.Figure(format, r.Worst)}
		table = append(table, append(figures, r.Of.Columns(ratePeers)...))
	}
	return lab.Align(table)
}

func (r Report) idleText() string {
	table := [][]string{{"", "each", "live"}}
	for _, f := range r.Idle {
		table = append(table, []string{f.Name, lab.Figure("%.0f", f.EachKiB), fmt.Sprint(f.Live)})
	}
	return lab.Align(table) + fmt.Sprintf("  of which aether-net's own: %d with one sandbox, %d with %d: %.0f each\n", r.Process.OneKiB, r.Process.AllKiB, r.Process.Alive, r.Process.EachKiB())
}
