package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"aether/lab/run"
	"aether/profile"
)

// Sizes of a picture of curves.
const (
	curveWide   = 470.0
	curveHigh   = 300.0
	curveLeft   = 66.0
	curveRight  = 104.0
	curveTop    = 14.0
	curveBottom = 40.0
	lineHigh    = 13.0
)

// curves is a picture of how a figure grows, a curve for each system.
type curves struct {
	Title, Across string
	Axis          string
	XTicks        []tick
	YTicks        []tick
	Lines         []curve
	Left, Right   float64
	Top, Bottom   float64
}

type curve struct {
	System string
	Style  int // of its line: its colour, and its dashes from the eighth on
	Points string
	Dots   []curveDot
	LabelX float64
	LabelY float64
	EndX   float64
	EndY   float64
}

type curveDot struct {
	X, Y       float64
	Link, Text string
}

var drawn = []struct {
	axis                  profile.Axis
	figure, title, across string
}{
	{profile.Density, run.Memory, "Host memory of each idle sandbox", "sandboxes alive"},
	{profile.Density, run.PSS, "of it in processes", "sandboxes alive"},
	{profile.Density, run.Kernel, "of it in the kernel", "sandboxes alive"},
	{profile.Snapshotting, run.Fork, "Fork, to the child's first answer", "MiB of live memory"},
	{profile.Snapshotting, run.StillFork, "The source stands still for a fork", "MiB of live memory"},
	{profile.Snapshotting, run.Snapshot, "Snapshot to disk", "MiB of live memory"},
	{profile.Snapshotting, run.Restore, "Restore, to the first answer", "MiB of live memory"},
	{profile.Snapshotting, run.StillSnapshot, "The source stands still for a snapshot", "MiB of live memory"},
	{profile.Snapshotting, run.Copies, "Until all copies answer", "copies"},
	{profile.Snapshotting, run.CopyMemory, "Host memory of each copy", "copies"},
}

// growth draws the curves of which there are any.
func growth(systems []run.System) (pictures []curves) {
	styles := map[string]int{}
	for i, s := range systems {
		styles[s.System] = i
	}
	for _, d := range drawn {
		found := map[string][]run.Figure{}
		var xs, ys []float64
		for _, s := range systems {
			a := s.Axis(d.axis.String())
			if a == nil {
				continue
			}
			for _, f := range a.Figures {
				// What is lost in noise, or below zero, has no place on a scale of powers.
				if f.Figure == d.figure && f.Median > 0 && f.At > 0 {
					found[s.System] = append(found[s.System], f)
					xs, ys = append(xs, f.At), append(ys, f.Median)
				}
			}
		}
		if len(ys) == 0 {
			continue
		}
		p := curves{Title: d.title, Across: d.across, Axis: d.axis.String(), Left: curveLeft, Right: curveWide - curveRight, Top: curveTop, Bottom: curveHigh - curveBottom}
		slices.Sort(xs)
		xs = slices.Compact(xs)
		x := scale{xs[0], xs[len(xs)-1], p.Left + 10, p.Right - 6}
		if x.low == x.high {
			x.low, x.high = x.low/2, x.high*2
		}
		for _, v := range xs {
			p.XTicks = append(p.XTicks, tick{x.at(v), fmt.Sprint(v)})
		}
		unit := unitOf(found)
		y := scaleOf(ys, unit, p.Bottom, p.Top)
		for _, s := range systems {
			if figures := found[s.System]; len(figures) > 0 {
				p.Lines = append(p.Lines, curveOf(s.System, styles[s.System], d.axis.String(), figures, x, y))
			}
		}
		p.YTicks = y.ticks(unit)
		apart(p.Lines, p.Top, p.Bottom)
		pictures = append(pictures, p)
	}
	return pictures
}

// unitOf is the unit of figures of one name.
func unitOf(found map[string][]run.Figure) run.Unit {
	for _, figures := range found {
		return figures[0].Unit
	}
	return run.Count
}

func curveOf(system string, style int, axis string, figures []run.Figure, x, y scale) curve {
	slices.SortFunc(figures, func(a, b run.Figure) int { return cmp.Compare(a.At, b.At) })
	c := curve{System: system, Style: style % 10}
	var points []string
	for _, f := range figures {
		d := curveDot{x.at(f.At), y.at(f.Median), rawLink(system, axis, f), fmt.Sprintf("%s at %v: %s", system, f.At, valueText(f.Median, f.Unit))}
		c.Dots = append(c.Dots, d)
		points = append(points, fmt.Sprintf("%.1f,%.1f", d.X, d.Y))
	}
	c.Points = strings.Join(points, " ")
	last := c.Dots[len(c.Dots)-1]
	c.EndX, c.EndY, c.LabelX, c.LabelY = last.X, last.Y, curveWide-curveRight+6, last.Y
	return c
}

// apart moves the names at the curves' ends such that none covers another.
func apart(lines []curve, top, bottom float64) {
	order := make([]*curve, len(lines))
	for i := range lines {
		order[i] = &lines[i]
	}
	slices.SortStableFunc(order, func(a, b *curve) int { return cmp.Compare(a.LabelY, b.LabelY) })
	for i, c := range order {
		if i > 0 {
			c.LabelY = max(c.LabelY, order[i-1].LabelY+lineHigh)
		}
	}
	// Those that were pushed below the picture come up again.
	for i := len(order) - 1; i >= 0; i-- {
		limit := bottom
		if i < len(order)-1 {
			limit = order[i+1].LabelY - lineHigh
		}
		order[i].LabelY = max(min(order[i].LabelY, limit), top)
	}
}
