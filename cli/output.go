package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// jsonFlag gives a command its --json.
func jsonFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("json", false, "print JSON instead of text")
}

// printJSON writes v indented, with a newline at the end.
func printJSON(cmd *cobra.Command, v any) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := cmd.OutOrStdout().Write(visibleJSON(text.Bytes()))
	return err
}

// printText writes text that is complete but for its last newline. Everything that
// commands print passes here, or printError, but for what runs in a sandbox and prints
// itself.
func printText(cmd *cobra.Command, text string) error {
	_, err := io.WriteString(cmd.OutOrStdout(), visiblePage(text)+"\n")
	return err
}

// printError writes a line, or more, to standard error.
func printError(cmd *cobra.Command, format string, args ...any) {
	// Nobody is left to tell if standard error cannot be written to.
	_, _ = io.WriteString(cmd.ErrOrStderr(), visibleLines(fmt.Sprintf(format, args...))+"\n")
}
