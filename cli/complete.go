package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"aether/profile"
)

// completeSystems offers the systems for the first n arguments: their names, or
// their aliases where what is typed begins no name.
func completeSystems(n int) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names, aliases := systemCompletions()
		offer := beginning(typed, names)
		if len(offer) == 0 {
			offer = beginning(typed, aliases)
		}
		return offer, cobra.ShellCompDirectiveNoFileComp
	}
}

func systemCompletions() (names, aliases []cobra.Completion) {
	for _, s := range profile.All() {
		names = append(names, cobra.CompletionWithDesc(s.Name(), s.Boundary().String()+" boundary"))
		for _, alias := range s.Aliases() {
			aliases = append(aliases, cobra.CompletionWithDesc(alias, s.Name()))
		}
	}
	return names, aliases
}

// beginning keeps what typed, in any case, is the beginning of.
func beginning(typed string, all []cobra.Completion) []cobra.Completion {
	return slices.DeleteFunc(all, func(c cobra.Completion) bool {
		return !strings.HasPrefix(c, strings.ToLower(typed))
	})
}

// completeRank completes the values of rank's flags.
func completeRank(cmd *cobra.Command) {
	for flag, complete := range map[string]cobra.CompletionFunc{
		"by":     completeMeasure,
		"weight": completeList(axisCompletions, "="),
		"need":   completeList(measureCompletions, ">="),
	} {
		if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
			// Only a flag that the command lacks: a defect, found by any test.
			panic(err)
		}
	}
}

func completeMeasure(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return beginning(typed, measureCompletions("")), cobra.ShellCompDirectiveNoFileComp
}

// completeList offers the next name of a list such as "isolation=3,density=2";
// a value follows it, so no space does.
func completeList(names func(suffix string) []cobra.Completion, suffix string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		done := typed[:strings.LastIndexByte(typed, ',')+1]
		offer := beginning(typed[len(done):], names(suffix))
		for i := range offer {
			offer[i] = done + offer[i]
		}
		return offer, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

func axisCompletions(suffix string) []cobra.Completion {
	var list []cobra.Completion
	for _, a := range profile.Axes() {
		list = append(list, cobra.CompletionWithDesc(a.String()+suffix, a.Question()))
	}
	return list
}

func measureCompletions(suffix string) []cobra.Completion {
	return append(axisCompletions(suffix),
		cobra.CompletionWithDesc(profile.ByFitness.String()+suffix, "the mean of all axes"))
}
