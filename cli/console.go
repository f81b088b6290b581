package cli

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"aether/rest"
)

// printConsole prints the end of a sandbox's console. Its bytes are the guest's, and a
// terminal must not obey them; JSON has them as they are.
func printConsole(ctx context.Context, cmd *cobra.Command, client *rest.Client, id string, asJSON bool) error {
	end, err := client.Console(ctx, id)
	if err != nil {
		return err
	}
	said := capture{bytes: append([]byte(end.Text), end.Bytes...), truncated: end.Truncated}
	if asJSON {
		return printJSON(cmd, said.stream())
	}
	_, err = io.WriteString(cmd.OutOrStdout(), consoleText(string(said.bytes)))
	return err
}

// consoleText is what a console said, in lines that end as those of a terminal do not.
func consoleText(said string) string {
	text := visibleLines(strings.ReplaceAll(said, "\r\n", "\n"))
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text
}
