package cli

import (
	"context"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

func setCommand() *cobra.Command {
	f := &termFlags{}
	cmd := &cobra.Command{
		Use:   "set ID",
		Short: "Change the time to live or the metadata of a sandbox",
		Long:  "Change the time to live of a sandbox, which counts from now on, or its metadata, which replace all\nthat it had.",
		Example: `  aether set 7k2m9x0r4c8v1b5n3q6w --timeout 1h --on-timeout pause
  aether set 7k2m9x0r4c8v1b5n3q6w --timeout 0
  aether set 7k2m9x0r4c8v1b5n3q6w --metadata task=42 --metadata owner=me`,
		Args: exactly(1, "one id"), ValidArgsFunction: completeIDs(1, engine.Running, engine.Paused),
	}
	f.registerChange(cmd)
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.validateChange(cmd); err != nil {
			return err
		}
		metadata, err := parseMetadata(f.metadata)
		if err != nil {
			return err
		}
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) (err error) {
			var now engine.Sandbox
			if cmd.Flags().Changed("timeout") {
				now, err = client.SetTimeout(ctx, args[0], f.timeout, engine.Then(f.onTimeout))
			}
			if err == nil && cmd.Flags().Changed("metadata") {
				now, err = client.SetMetadata(ctx, args[0], metadata)
			}
			if err != nil || !*asJSON {
				return err
			}
			return printJSON(cmd, now)
		})
	}
	return cmd
}

func (f *termFlags) validateChange(cmd *cobra.Command) error {
	timeout, metadata := cmd.Flags().Changed("timeout"), cmd.Flags().Changed("metadata")
	switch {
	case cmd.Flags().Changed("on-timeout") && !timeout:
		return sandbox.Invalidf("--on-timeout", "it needs --timeout")
	case !timeout && !metadata:
		return sandbox.Invalidf("flags", "neither --timeout nor --metadata is given")
	}
	return f.validate()
}
