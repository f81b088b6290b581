package isolation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"aether/lab"
	"aether/sandbox"
)

// Report is the results of several drivers, best first, and why others have none.
type Report struct {
	Results []Result `json:"results"`
	Absent  []Absent `json:"absent,omitempty"`
}

// Absent is a driver without a result.
type Absent struct {
	Driver string `json:"driver"`
	Reason string `json:"reason"`
}

var _ lab.Findings = Report{}

// MeasureAll measures the drivers that this host can run, one after the other. A driver that
// fails has no result, and its reason stands there.
func MeasureAll(ctx context.Context, makers []sandbox.Maker, opts Options) (r Report, err error) {
	for _, m := range makers {
		result, err := measureOne(ctx, m.New(), opts)
		switch {
		case ctx.Err() != nil:
			return r, ctx.Err()
		case err != nil:
			r.Absent = append(r.Absent, Absent{m.Name, err.Error()})
		default:
			r.Results = append(r.Results, result)
		}
	}
	slices.SortStableFunc(r.Results, func(a, b Result) int {
		switch {
		case a.Score > b.Score:
			return -1
		case a.Score < b.Score:
			return 1
		}
		return 0
	})
	return r, nil
}

func measureOne(ctx context.Context, driver sandbox.Driver, opts Options) (r Result, err error) {
	if c, ok := driver.(sandbox.Closer); ok {
		defer func() { err = errors.Join(err, c.Close(context.WithoutCancel(ctx))) }()
	}
	if report := driver.Probe(ctx); !report.Usable {
		return r, report.Err(driver.Info().Name)
	}
	return Measure(ctx, driver, opts)
}

// Text implements lab.Findings.
func (r Report) Text() string {
	var b strings.Builder
	b.WriteString("Isolation, of 1\n")
	for _, result := range r.Results {
		b.WriteString(result.Text())
	}
	for _, a := range r.Absent {
		fmt.Fprintf(&b, "%s: absent: %s\n", a.Driver, a.Reason)
	}
	return b.String()
}
