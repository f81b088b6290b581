package cli

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"
)

// jsonFlag gives a command its --json.
func jsonFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("json", false, "print JSON instead of text")
}

// printJSON writes v indented, with a newline at the end.
func printJSON(cmd *cobra.Command, v any) error {
	enc := json.NewEncoder(cmd.OutOrStdout())
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// printText writes text that is complete but for its last newline.
func printText(cmd *cobra.Command, text string) error {
	_, err := io.WriteString(cmd.OutOrStdout(), text+"\n")
	return err
}
