package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	labrun "aether/lab/run"
	"aether/profile"
	"aether/sandbox"
)

// preferred is how much more an axis counts that is preferred.
const preferred = 4

func chooseCommand(drivers *drivers) *cobra.Command {
	var isolation, from string
	var prefer []string
	cmd := &cobra.Command{
		Use: "choose", Short: "Recommend an isolation system for this host, with the reasons",
		Long: "Recommend the system that fits best among those that run here and have at least the boundary that is asked for. Scores are\n" +
			"those that the lab measured on this host, if it ever did, and else the profiles'. Axes that are preferred count four\n" +
			"times as much as the others.",
		Example: "  aether choose --isolation hardware --prefer start-latency\n  aether choose --prefer density,snapshotting --json\n  aether choose --measured ./run",
		Args:    noArguments,
	}
	cmd.Flags().StringVar(&isolation, "isolation", "", "the weakest `BOUNDARY` that will do: process, kernel, hardware")
	cmd.Flags().StringSliceVar(&prefer, "prefer", nil, "`AXES` that count most, separated by commas")
	cmd.Flags().StringVar(&from, "measured", "", "use the scores of this `RUN` (default: the last one, or the profiles)")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		want, weights, err := chooseWishes(isolation, prefer)
		if err != nil {
			return err
		}
		j, err := judgesOf(from)
		if err != nil {
			return err
		}
		choice, err := j.choose(cmd.Context(), drivers.All(), want, weights)
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(cmd, choice)
		}
		return printText(cmd, choice.text(screenOf(cmd.OutOrStdout())))
	}
	return cmd
}

func chooseWishes(isolation string, prefer []string) (want sandbox.Boundary, weights profile.Weights, err error) {
	if isolation != "" {
		if want, err = sandbox.ParseBoundary(isolation); err != nil {
			return want, nil, err
		}
	}
	weights = profile.Weights{}
	for _, name := range prefer {
		axis, err := profile.ParseAxis(name)
		if err != nil {
			return want, nil, err
		}
		weights[axis] = preferred
	}
	return want, weights, nil
}

// scorer knows scores: a run's, or the profiles' where there is none.
type scorer struct{ run *labrun.Run }

// judgesOf finds the run that is named, or the last, or none.
func judgesOf(name string) (scorer, error) {
	r, err := loadRun(name)
	if name == "" && sandbox.ClassOf(err) == sandbox.NotFound {
		return scorer{}, nil
	}
	if err != nil {
		return scorer{}, err
	}
	return scorer{&r}, nil
}

func (j scorer) source() string {
	if j.run == nil {
		return "of the profiles (aether lab run --quick measures this host)"
	}
	return "that the run " + j.run.ID + " measured on this host"
}

// score is a system's on an axis, with what it rests on; nil where nobody knows.
func (j scorer) score(system string, axis profile.Axis) (score *float64, why string) {
	if j.run != nil {
		s, err := j.run.System(system)
		if err != nil {
			return nil, ""
		}
		if a := s.Axis(axis.String()); a != nil && a.Score != nil {
			return a.Score, a.Why
		}
		return nil, ""
	}
	for _, judged := range profile.All() {
		if judged.Name() == system {
			p := judged.Profile()
			value := p.Score(axis).Float()
			return &value, p.Evidence[axis]
		}
	}
	return nil, ""
}

// choice is the JSON answer.
type choice struct {
	Choice   string   `json:"choice"`
	Boundary string   `json:"boundary"`
	Weighted *float64 `json:"weighted,omitempty"`
	From     string   `json:"from"`
	Reasons  []string `json:"reasons"`
	// Others run here too, best first; Excluded do not, or are too weak.
	Others   []candidate `json:"others"`
	Excluded []exclusion `json:"excluded"`
}

type candidate struct {
	System   string `json:"system"`
	Boundary string `json:"boundary"`
	// Weighted is absent for a system without any score.
	Weighted *float64 `json:"weighted,omitempty"`
	// Axes is how many of the axes that anybody has a score on it has one on.
	Axes int `json:"axes"`
}

// weighted is less than any score where there is none.
func (c candidate) weighted() float64 {
	if c.Weighted == nil {
		return -1
	}
	return *c.Weighted
}

func (c candidate) scoreText() string {
	if c.Weighted == nil {
		return "unmeasured"
	}
	return fmt.Sprintf("%.2f", *c.Weighted)
}

type exclusion struct {
	System string `json:"system"`
	Reason string `json:"reason"`
	Remedy string `json:"remedy,omitempty"`
}

// choose weighs the drivers that run here. Errors: Unavailable if none will do.
func (j scorer) choose(ctx context.Context, drivers []sandbox.Driver, want sandbox.Boundary, weights profile.Weights) (choice, error) {
	c := choice{From: j.source(), Others: []candidate{}, Excluded: []exclusion{}}
	var list []candidate
	for i, report := range probeAll(ctx, drivers) {
		info := drivers[i].Info()
		switch {
		case !report.Usable:
			c.Excluded = append(c.Excluded, exclusion{info.Name, report.Reason, report.Remedy})
		case info.Boundary < want:
			c.Excluded = append(c.Excluded, exclusion{info.Name, fmt.Sprintf("its boundary is %s, less than %s", info.Boundary, want), ""})
		default:
			list = append(list, j.weigh(info, weights))
		}
	}
	if len(list) == 0 {
		return c, noneWillDo(drivers, want, c.Excluded)
	}
	slices.SortStableFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.Axes, a.Axes), cmp.Compare(b.weighted(), a.weighted()))
	})
	best := list[0]
	c.Choice, c.Boundary, c.Weighted, c.Others = best.System, best.Boundary, best.Weighted, append(c.Others, list[1:]...)
	c.Reasons = j.reasons(best, list[1:], want, weights)
	return c, nil
}

func (j scorer) weigh(info sandbox.Info, weights profile.Weights) candidate {
	c := candidate{System: info.Name, Boundary: info.Boundary.String()}
	sum, total := 0.0, 0.0
	for _, axis := range profile.Axes() {
		score, _ := j.score(info.Name, axis)
		if score == nil {
			continue
		}
		weight := cmp.Or(weights[axis], 1)
		c.Axes++
		sum += weight * *score
		total += weight
	}
	if total > 0 {
		mean := sum / total
		c.Weighted = &mean
	}
	return c
}

// reasons say why it is this one.
func (j scorer) reasons(best candidate, others []candidate, want sandbox.Boundary, weights profile.Weights) (list []string) {
	if want != sandbox.AnyBoundary {
		list = append(list, fmt.Sprintf("its boundary is %s, and %s or more was asked for", best.Boundary, want))
	}
	if len(others) > 0 {
		list = append(list, fmt.Sprintf("it scores %s, before %s with %s", best.scoreText(), others[0].System, others[0].scoreText()))
	} else {
		list = append(list, "nothing else that will do runs on this host")
	}
	for _, axis := range profile.Axes() {
		score, why := j.score(best.System, axis)
		if score == nil || weights[axis] == 0 && len(weights) > 0 {
			continue
		}
		list = append(list, fmt.Sprintf("%s %.2f: %s", axis, *score, why))
	}
	return list
}

// noneWillDo says what would mend it: of those systems whose boundary is enough.
func noneWillDo(drivers []sandbox.Driver, want sandbox.Boundary, excluded []exclusion) error {
	var remedies []string
	for i, e := range excluded {
		if drivers[i].Info().Boundary >= want && e.Remedy != "" {
			remedies = append(remedies, e.System+": "+e.Remedy)
		}
	}
	err := &sandbox.Error{Class: sandbox.Unavailable, Field: "--isolation", Reason: fmt.Sprintf("no system with a boundary of %s or more runs on this host", want)}
	if len(remedies) > 0 {
		err.Remedy = strings.Join(remedies, "; ")
	}
	return err
}

func (c choice) text(s screen) string {
	lines := []string{s.paint(bold, c.Choice) + fmt.Sprintf(" (boundary %s), by the scores %s", c.Boundary, c.From)}
	for _, reason := range c.Reasons {
		lines = append(lines, paragraph(visible("- "+reason), "  ", s.prose()))
	}
	var others []string
	for _, o := range c.Others {
		others = append(others, o.System+" "+o.scoreText())
	}
	if len(others) > 0 {
		lines = append(lines, paragraph("then: "+strings.Join(others, ", "), "", s.prose()))
	}
	for _, e := range c.Excluded {
		lines = append(lines, paragraph(visible("not "+e.System+": "+e.Reason), "", s.prose()))
	}
	return strings.Join(lines, "\n")
}
