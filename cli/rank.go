package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"aether/profile"
)

// rankOptions are the flags of rank as they were given.
type rankOptions struct {
	core  bool
	by    string
	weigh []string
	need  []string
	// measured is a run whose scores are ranked, instead of the profiles'.
	measured string
}

func rankCommand(drivers *drivers) *cobra.Command {
	var o rankOptions
	cmd := &cobra.Command{
		Use:   "rank",
		Short: "List the isolation systems, best first",
		Long: "List the isolation systems by fitness, the mean of their five scores, best first.\n" +
			"Weights and needs turn the list into a decision for one workload.\n\n" +
			"Scores marked * are given by design, wholly or in part: for what is planned, not for\n" +
			"what exists or was measured. Systems marked † have no driver in this build.",
		Example: `  aether rank --core
  aether rank --by isolation
  aether rank --weight isolation=3,start-latency=2
  aether rank --need 'isolation>=0.8' --need 'start-latency>=0.8' --json
  aether rank --measured last`,
		Args: noArguments,
	}
	cmd.Flags().BoolVar(&o.core, "core", false, "only the core seven")
	cmd.Flags().StringVar(&o.by, "by", "", "sort by an `AXIS` or by fitness")
	cmd.Flags().StringArrayVar(&o.weigh, "weight", nil, "how much axes count, as `AXIS=NUMBER,...` (others count 1)")
	cmd.Flags().StringArrayVar(&o.need, "need", nil, "keep what meets a condition, as `'AXIS>=NUMBER'` (>= > <= < =; also fitness)")
	cmd.Flags().StringVar(&o.measured, "measured", "", "rank by what a `RUN` of the lab measured on this host (last: the newest)")
	asJSON := jsonFlag(cmd)
	completeRank(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("measured") {
			return o.rankMeasured(cmd, *asJSON)
		}
		r, err := o.ranking(cmd)
		if err != nil {
			return err
		}
		r.driven = drivenBy(drivers.Names())
		return r.print(cmd, *asJSON)
	}
	return cmd
}

// ranking is an answer of rank: profiles in order, where weights were given the
// weights, and which systems this build drives.
type ranking struct {
	profiles []profile.Profile
	weights  profile.Weights
	driven   drivenSystems
}

func (o rankOptions) ranking(cmd *cobra.Command) (r ranking, err error) {
	needs, err := parseNeeds(o.need)
	if err != nil {
		return r, err
	}
	if len(o.weigh) > 0 {
		if r.weights, err = profile.ParseWeights(strings.Join(o.weigh, ",")); err != nil {
			return r, err
		}
	}
	kept := profile.Meeting(needs, profile.Profiles(o.systems()...))
	if !cmd.Flags().Changed("by") {
		r.profiles = profile.RankWeighted(r.weights, kept)
		return r, nil
	}
	measure, err := profile.ParseMeasure(o.by)
	if err != nil {
		return r, err
	}
	r.profiles = profile.RankBy(measure, kept)
	return r, nil
}

func (o rankOptions) systems() []profile.System {
	if o.core {
		return profile.Core()
	}
	return profile.All()
}

func parseNeeds(lists []string) ([]profile.Need, error) {
	var needs []profile.Need
	for _, list := range lists {
		for part := range strings.SplitSeq(list, ",") {
			need, err := profile.ParseNeed(part)
			if err != nil {
				return nil, err
			}
			needs = append(needs, need)
		}
	}
	return needs, nil
}

// rankedProfile is one entry of the JSON answer.
type rankedProfile struct {
	profile.Profile
	Driver   bool     `json:"driver"`
	Weighted *float64 `json:"weighted,omitempty"`
}

func (r ranking) print(cmd *cobra.Command, asJSON bool) error {
	if asJSON {
		return printJSON(cmd, r.entries())
	}
	if len(r.profiles) == 0 {
		printError(cmd, "aether: no system meets every need")
		return nil
	}
	s := screenOf(cmd.OutOrStdout())
	return printText(cmd, r.table(s.width).render(s)+r.driven.footnotes(s, r.profiles))
}

func (r ranking) entries() []rankedProfile {
	list := make([]rankedProfile, len(r.profiles))
	for i, p := range r.profiles {
		list[i].Profile, list[i].Driver = p, r.driven.has(p.System)
		if r.weights != nil {
			weighted := r.weights.Fitness(p)
			list[i].Weighted = &weighted
		}
	}
	return list
}
