package cli

import (
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

var completionScripts = map[string]func(root *cobra.Command, w io.Writer) error{
	"bash":       func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
	"zsh":        func(root *cobra.Command, w io.Writer) error { return root.GenZshCompletion(w) },
	"fish":       func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
	"powershell": func(root *cobra.Command, w io.Writer) error { return root.GenPowerShellCompletionWithDesc(w) },
}

func completionCommand() *cobra.Command {
	shells := slices.Sorted(maps.Keys(completionScripts))
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a completion script for a shell",
		Long:  "Print a script that completes commands, flags, systems and axes in a shell, which is one\nof " + strings.Join(shells, ", ") + ".",
		Example: `  source <(aether completion bash)
  aether completion fish > ~/.config/fish/completions/aether.fish`,
		Args:                  exactly(1, "one shell"),
		ValidArgs:             shells,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			script, ok := completionScripts[args[0]]
			if !ok {
				return unknownName("shell", args[0], shells)
			}
			return script(cmd.Root(), cmd.OutOrStdout())
		},
	}
}
