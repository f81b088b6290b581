package report

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"aether/lab/run"
	"aether/profile"
)

var (
	//go:embed page.html
	text string
	//go:embed style.css
	style string

	layout = sync.OnceValue(func() *template.Template {
		return template.Must(template.New("page").Funcs(template.FuncMap{
			"style": func() template.CSS { return template.CSS(style) },
			"score": scoreText,
			"value": valueText,
			"px":    pixels,
			"on":    func(p page, axis string) part { return part{p, axis} },
		}).Parse(text))
	})
)

// page is what the template shows.
type page struct {
	run.Run
	Started       string
	Took          time.Duration
	Axes          []profile.Axis
	Ranked        []ranked
	Absent        []run.System
	Disagreements []disagreement
	Latency       []strips
	Curves        []curves
	Matrices      []matrix
	Details       []details
	Raw           []rawSystem
	KVM           *besides // nil if nothing was measured inside the KVM lab
}

// part is the page for the template of one axis.
type part struct {
	Page page
	Axis string
}

// File is the page's name in the directory of its run.
const File = "report.html"

// Write puts the page and the picture of a run, whether it is complete or not, into the
// run's directory.
func Write(dir string) error {
	r, err := run.Load(dir)
	if err != nil {
		return err
	}
	return errors.Join(write(filepath.Join(dir, File), func(w io.Writer) error { return Of(w, dir) }),
		write(filepath.Join(dir, PictureFile), func(w io.Writer) error { return Picture(w, r) }))
}

// write makes a file whole or not at all.
func write(name string, draw func(io.Writer) error) error {
	file, err := os.Create(name + ".new")
	if err != nil {
		return err
	}
	err = draw(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(name+".new"))
	}
	return os.Rename(name+".new", name)
}

// Of writes the page of the run in a directory.
func Of(w io.Writer, dir string) error {
	records, err := run.Read(dir)
	if err != nil {
		return err
	}
	r, err := run.Load(dir)
	if err != nil {
		return err
	}
	kvm, err := readKVM(dir)
	if err != nil {
		return err
	}
	return html(w, r, records, kvm)
}

// html writes the page of a run; records are those that the run was made of.
func html(w io.Writer, r run.Run, records []run.Record, kvm *besides) error {
	p := page{Run: r, Started: started(r), Took: time.Duration(r.TookSeconds * float64(time.Second)).Round(time.Second), Axes: axesOf(r), KVM: kvm}
	systems := rank(r.Results)
	for _, s := range r.Results {
		if s.Absent != "" {
			p.Absent = append(p.Absent, s)
		}
	}
	p.Ranked = rankedRows(systems, p.Axes)
	p.Disagreements = disagreements(systems)
	p.Latency = latency(systems, records)
	p.Curves = growth(systems)
	p.Matrices = matrices(systems)
	p.Details = detailed(systems)
	p.Raw = raw(systems, records)
	var b bytes.Buffer
	if err := layout().Execute(&b, p); err != nil {
		return err
	}
	_, err := w.Write(printable(b.Bytes()))
	return err
}

// printable has nothing in it that a terminal would obey: what systems say may.
func printable(text []byte) []byte {
	return bytes.Map(func(c rune) rune {
		if unicode.IsControl(c) && c != '\n' {
			return unicode.ReplacementChar
		}
		return c
	}, text)
}

func started(r run.Run) string {
	return time.Unix(r.Host.StartedUnix, 0).UTC().Format("2 January 2006, 15:04 UTC")
}

// axesOf are the axes of a run, in the order of the profiles.
func axesOf(r run.Run) (list []profile.Axis) {
	for _, a := range profile.Axes() {
		if slices.Contains(r.Header.Axes, a.String()) {
			list = append(list, a)
		}
	}
	return list
}

// pixels is a place in a picture.
func pixels(v float64) string { return fmt.Sprintf("%.1f", v) }

// scoreText is a score of two digits, as the profiles' are.
func scoreText(v *float64) string {
	if v == nil {
		return "–"
	}
	return fmt.Sprintf("%.2f", *v)
}

// valueText is a value of three digits, in the unit that people read.
func valueText(v float64, unit run.Unit) string {
	switch unit {
	case run.Microseconds:
		return scaled(v, 1000, "µs", "ms", "s")
	case run.KiB:
		return scaled(v, 1024, "KiB", "MiB", "GiB")
	case run.Share:
		return digits(100*v) + " %"
	}
	return digits(v)
}

func scaled(v, step float64, units ...string) string {
	for v >= step*0.9995 && len(units) > 1 {
		v, units = v/step, units[1:]
	}
	return digits(v) + " " + units[0]
}

func digits(v float64) string {
	switch abs := max(v, -v); {
	case abs >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case abs >= 9.995:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
	}
	return strings.TrimSuffix(fmt.Sprintf("%.2f", v), ".00")
}

// anchor is a name as it stands behind a #.
func anchor(parts ...any) string {
	var b strings.Builder
	for i, p := range parts {
		if i > 0 {
			b.WriteByte('-')
		}
		for _, c := range fmt.Sprint(p) {
			if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' {
				b.WriteRune(c)
			} else {
				b.WriteByte('_')
			}
		}
	}
	return b.String()
}
