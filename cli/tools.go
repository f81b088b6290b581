package cli

import (
	"github.com/spf13/cobra"

	"aether/tool"
)

func toolsCommand() *cobra.Command {
	var format, profile string
	cmd := &cobra.Command{
		Use:   "tools",
		Short: "Print what agents can do, in the format of a model's provider",
		Long: `Print the tools that agents have, as JSON in a format: what the tools of a request to a model
are, or the answer of tools/list for mcp. Strict modes are used where a provider has them.`,
		Example: `  aether tools --format anthropic --profile compact
  aether tools --format openai
  aether tools --format mcp`,
		Args: noArguments,
	}
	cmd.Flags().StringVar(&format, "format", string(tool.MCP), "one of mcp, openai, openai-responses, anthropic, gemini")
	registerProfile(cmd, &profile, tool.Full)
	if err := cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(formatNames(), cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag was registered just above
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		p, err := profileOf(profile)
		if err != nil {
			return err
		}
		f, err := tool.ParseFormat(format)
		if err != nil {
			return unknownName("--format", format, formatNames())
		}
		tools, err := tool.Of(p)
		if err != nil {
			return err
		}
		list, err := tool.Project(f, tools)
		if err != nil {
			return err
		}
		return printJSON(cmd, list)
	}
	return cmd
}

func formatNames() (names []string) {
	for _, f := range tool.Formats() {
		names = append(names, string(f))
	}
	return names
}
