package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"sync"

	"aether/lab/run"
	"aether/profile"
)

// PictureFile is the name of a run's picture in its directory.
const PictureFile = "picture.svg"

// Sizes of the picture, in its units.
const (
	pictureLeft = 196.0 // where the first axis begins
	axisWide    = 120.0
	barWide     = 80.0
	pictureRow  = 25.0
	footRow     = 18.0
)

var (
	//go:embed picture.svg
	pictureText string

	pictureLayout = sync.OnceValue(func() *template.Template {
		return template.Must(template.New("picture").Funcs(template.FuncMap{"px": pixels}).Parse(pictureText))
	})
)

// picture is what the template shows: the ranking of a run at one glance.
type picture struct {
	High   float64
	Titles []tick
	Rows   []pictured
	Foot   []tick
}

type pictured struct {
	System, Fitness, Cold, Idle string
	Y                           float64
	Bars                        []scoreBar
}

// scoreBar is a score of an axis, with the place of the profile's.
type scoreBar struct {
	X, Top, MarkTop, Whole, Wide, At, TextX float64
	Curated                                 bool
	Text, Said                              string
}

// Picture writes the ranking of a run as one SVG that needs nothing else.
func Picture(w io.Writer, r run.Run) error {
	p := picture{}
	axes := axesOf(r)
	for i, axis := range axes {
		p.Titles = append(p.Titles, tick{pictureLeft + float64(i)*axisWide, axis.String()})
	}
	y := 24.0
	for _, row := range rankedRows(rank(r.Results), axes) {
		y += pictureRow
		one := pictured{System: row.System, Fitness: scoreText(row.Fitness), Y: y, Cold: "–", Idle: "–"}
		for i, c := range row.Cells {
			x := pictureLeft + float64(i)*axisWide
			one.Bars = append(one.Bars, scoreBar{X: x, Top: y - 9, MarkTop: y - 11, Whole: barWide, Wide: barWide * c.Width / 100, At: x + barWide*c.At/100 - 1,
				TextX: x + barWide + 5, Curated: c.Curated != nil, Text: scoreText(c.Score), Said: c.Axis + " of " + row.System})
		}
		one.Cold, one.Idle = glance(r, row.System)
		p.Rows = append(p.Rows, one)
	}
	for _, line := range feet(r) {
		y += footRow
		p.Foot = append(p.Foot, tick{y + 8, line})
	}
	p.High = y + 20
	var b bytes.Buffer
	if err := pictureLayout().Execute(&b, p); err != nil {
		return err
	}
	_, err := w.Write(printable(b.Bytes()))
	return err
}

// glance are the two figures that people ask for first.
func glance(r run.Run, system string) (cold, idle string) {
	cold, idle = "–", "–"
	s, err := r.System(system)
	if err != nil {
		return cold, idle // which cannot be, for the row is of the run
	}
	if a := s.Axis(profile.StartLatency.String()); a != nil {
		if f := a.Figure(run.Cold, 1); f != nil {
			cold = valueText(f.Median, f.Unit)
		}
	}
	if a := s.Axis(profile.Density.String()); a != nil {
		if kib, ok := a.Idle(); ok {
			idle = valueText(kib, run.KiB)
		}
	}
	return cold, idle
}

// feet say what the picture is of.
func feet(r run.Run) []string {
	host := fmt.Sprintf("Linux %s %s, %d × %s, %d MiB", r.Host.Kernel, r.Host.Arch, r.Host.Cores, r.Host.CPU, r.Host.MemoryMiB)
	if r.Host.Virtualized {
		host += ", virtualized"
	}
	kind := "A whole run"
	if r.Quick {
		kind = "A quick run"
	}
	said := fmt.Sprintf("%s of aether lab as %s on %s.", kind, r.Host.User, started(r))
	if r.Busy.Said {
		said += fmt.Sprintf(" The host was busy: others used up to %.0f %% of its processors.", 100*r.Busy.Most)
	}
	return []string{"Scores are from 0 to 1; the stroke is the profile's. A dash could not be measured.", said, host + "."}
}
