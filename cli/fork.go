package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

func forkCommand() *cobra.Command {
	f, net, count := &termFlags{}, &networkFlags{fixed: true}, 1
	cmd := &cobra.Command{
		Use:   "fork ID",
		Short: "Branch a running sandbox, and print the ids of its children",
		Long: `Branch a running sandbox: each child goes on from the same instruction, with the same memory and
files, in a sandbox of its own. The source goes on too. Time to live, metadata and the like are
each child's own, and not the source's. Children may reach what the source may, or what --allow and
the like say instead.`,
		Example: "  aether fork 7k2m9x0r4c8v1b5n3q6w\n  aether fork 7k2m9x0r4c8v1b5n3q6w -n 8 --timeout 10m --metadata try=2\n  aether fork 7k2m9x0r4c8v1b5n3q6w --allow packages",
		Args:    exactly(1, "one id"), ValidArgsFunction: completeIDs(1, engine.Running),
	}
	cmd.Flags().IntVarP(&count, "count", "n", 1, "how many children")
	f.register(cmd)
	net.registerNetwork(cmd)
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req, err := f.fork(count)
		if err != nil {
			return err
		}
		if req.Network, err = net.other(cmd); err != nil {
			return err
		}
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			if req.Network != nil {
				if err := keepMode(ctx, client, args[0], req.Network); err != nil {
					return err
				}
			}
			made, err := client.Fork(ctx, args[0], req)
			if err != nil {
				return err
			}
			return printForks(cmd, made, *asJSON)
		})
	}
	return cmd
}

func (f *termFlags) fork(count int) (req engine.ForkRequest, err error) {
	if count < 1 {
		return req, sandbox.Invalidf("--count", "%d is less than 1", count)
	}
	if err := f.validate(); err != nil {
		return req, err
	}
	metadata, err := parseMetadata(f.metadata)
	return engine.ForkRequest{Count: count, Metadata: metadata, Timeout: f.timeout, Then: engine.Then(f.onTimeout), Keep: f.keep, AutoResume: f.autoResume, Key: f.key}, err
}

func printForks(cmd *cobra.Command, made []engine.Sandbox, asJSON bool) error {
	if asJSON {
		return printJSON(cmd, made)
	}
	ids := make([]string, len(made))
	for i, s := range made {
		ids[i] = s.ID
	}
	return printText(cmd, strings.Join(ids, "\n"))
}
