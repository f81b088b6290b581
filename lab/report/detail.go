package report

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"aether/lab/run"
)

// details are a system's axes with all their figures.
type details struct {
	run.System
	Link string
	Axes []axisDetail
}

type axisDetail struct {
	run.Axis
	Link    string
	Figures []figureDetail
}

type figureDetail struct {
	run.Figure
	Link string
}

func detailed(systems []run.System) (list []details) {
	for _, s := range systems {
		d := details{System: s, Link: anchor("d", s.System)}
		for _, a := range s.Axes {
			one := axisDetail{Axis: a, Link: anchor("d", s.System, a.Axis)}
			for _, f := range a.Figures {
				one.Figures = append(one.Figures, figureDetail{f, rawLink(s.System, a.Axis, f)})
			}
			d.Axes = append(d.Axes, one)
		}
		list = append(list, d)
	}
	return list
}

// rawLink is the place of a figure's samples.
func rawLink(system, axis string, f run.Figure) string {
	return anchor("raw", system, axis, f.Figure, f.At)
}

// rawSystem is what the records say of a system, as they do.
type rawSystem struct {
	System string
	Groups []rawGroup
}

type rawGroup struct {
	Link, Title string
	Rows        []rawRow
}

type rawRow struct {
	Line       int
	When, Text string
}

// raw are all records of systems, by what they are samples of.
func raw(systems []run.System, records []run.Record) (list []rawSystem) {
	for _, s := range systems {
		one := rawSystem{System: s.System}
		places := map[string]int{}
		for _, r := range records {
			if r.System != s.System || r.Kind == run.Done {
				continue
			}
			link, title := anchor("raw", s.System, r.Axis, r.Kind), strings.TrimSpace(r.Axis+" "+string(r.Kind)+"s")
			if r.Kind == run.Sampled {
				link = rawLink(s.System, r.Axis, run.Figure{Figure: r.Figure, At: r.At})
				title = fmt.Sprintf("%s: %s at %v", r.Axis, r.Figure, r.At)
			}
			i, known := places[link]
			if !known {
				i = len(one.Groups)
				places[link] = i
				one.Groups = append(one.Groups, rawGroup{Link: link, Title: title})
			}
			g := &one.Groups[i]
			g.Rows = append(g.Rows, rawRow{r.Line, time.UnixMilli(r.UnixMS).UTC().Format("15:04:05.000"), recordText(r)})
		}
		list = append(list, one)
	}
	return list
}

// recordText is a record in short: the place on the page says the rest.
func recordText(r run.Record) string {
	switch r.Kind {
	case run.Sampled:
		parts := ""
		for _, p := range r.Parts {
			parts += fmt.Sprintf("; %s %s", p.Name, valueText(p.Value, r.Unit))
			if p.After {
				parts += " (after)"
			}
		}
		return fmt.Sprintf("round %d: %v %s%s", r.Round, r.Value, r.Unit, parts)
	case run.Proved:
		holds := "does not hold"
		if r.Holds {
			holds = "holds"
		}
		return strings.TrimSpace(fmt.Sprintf("%s %s", r.Fact, r.By)) + " " + holds + ": " + r.Proof
	case run.Absent:
		return strings.TrimPrefix(r.Figure+": "+r.Reason, ": ")
	}
	if r.Machine != nil {
		if text, err := json.Marshal(r.Machine); err == nil {
			return string(text)
		}
	}
	return r.Reason
}
