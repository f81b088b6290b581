package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/guest"
	"aether/rest"
)

func portForwardCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "port-forward ID [ADDRESS:]LOCAL:PORT...",
		Short: "Reach ports of a sandbox by ports of this host",
		Long: `Have programs of this host reach a port of a sandbox: what connects to LOCAL is connected to PORT of
the sandbox's own loopback, by way of the daemon, until this command is interrupted. The sandbox needs
no network for that. Without ADDRESS only this host can connect; LOCAL 0 is any free port.`,
		Example: `  aether port-forward 7k2m9x0r4c8v1b5n3q6w 8080:80
  aether port-forward 7k2m9x0r4c8v1b5n3q6w 0:80 5432:5432 --json
  aether port-forward 7k2m9x0r4c8v1b5n3q6w 0.0.0.0:8080:80`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) >= 2 {
				return nil
			}
			return exactly(2, "one id, and LOCAL:PORT")(cmd, args)
		},
		ValidArgsFunction: completeIDs(1, engine.Running),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		list, err := parseForwards("LOCAL:PORT", args[1:])
		if err != nil {
			return err
		}
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			inside, release, err := client.Guest(ctx, args[0])
			if err != nil {
				return err
			}
			defer release()
			return forwardUntilInterrupted(cmd, inside, list, *asJSON)
		})
	}
	return cmd
}

func forwardUntilInterrupted(cmd *cobra.Command, inside *guest.Client, list []forward, asJSON bool) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	f, err := startForwards(cmd, inside.DialPort, list)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, one := range list {
		if err := printForward(cmd, one, asJSON); err != nil {
			return err
		}
	}
	select {
	case <-ctx.Done():
		return nil
	case <-f.ctx.Done():
		return ofSandbox(context.Cause(f.ctx))
	}
}

func printForward(cmd *cobra.Command, one forward, asJSON bool) error {
	if asJSON { // a line for each, for whoever waits for them
		return json.NewEncoder(cmd.OutOrStdout()).Encode(one)
	}
	return printText(cmd, fmt.Sprintf("%s -> %d", one.Local, one.Port))
}
