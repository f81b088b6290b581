package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

func volumeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "volume",
		Short: "Make, list and remove directories that outlive sandboxes",
		Long: `Make, list and remove volumes: directories of the daemon's that outlive sandboxes, are bounded and
are mounted by name, in as many sandboxes at once as you like.`,
		Example: `  aether volume create data --size 1G
  aether create --volume data:/data
  aether volume list
  aether volume rm data`,
		Args: knownSubcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(volumeCreateCommand(), volumeListCommand(), volumeRemoveCommand())
	return cmd
}

func volumeCreateCommand() *cobra.Command {
	var (
		size, key string
		unbounded bool
	)
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a volume, and print its name",
		Long: `Make an empty volume and print its name. It takes at most --size of the host's disk, and room only
as it is written to; its file system keeps about a tenth of that for itself.`,
		Example: `  aether volume create data --size 1G
  aether volume create scratch --unbounded --json`,
		Args: exactly(1, "one name"),
	}
	flags := cmd.Flags()
	flags.StringVar(&size, "size", "", "how much of the host's disk it may take, such as 512M or 10G, at least 16M")
	flags.BoolVar(&unbounded, "unbounded", false, "let it take all of the disk, for those who may")
	flags.StringVar(&key, "idempotency-key", "", "the same key gives the same answer, however often the command is run")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req := engine.VolumeRequest{Name: args[0], Key: key}
		if err := volumeSize(&req, size, unbounded); err != nil {
			return err
		}
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			made, err := client.CreateVolume(ctx, req)
			switch {
			case err != nil:
				return err
			case *asJSON:
				return printJSON(cmd, made)
			}
			return printText(cmd, made.Name)
		})
	}
	return cmd
}

// volumeSize reads how large a volume is to be, which is said one way or the other.
func volumeSize(req *engine.VolumeRequest, size string, unbounded bool) (err error) {
	switch {
	case unbounded && size != "":
		return sandbox.Invalidf("--unbounded", "it cannot be combined with --size")
	case unbounded:
		return nil
	case size == "":
		return &sandbox.Error{Class: sandbox.Invalid, Field: "--size", Reason: "how large the volume may be is not said", Remedy: "give one, such as --size 1G"}
	}
	req.Bytes, err = parseBytes("--size", size)
	return err
}

func volumeListCommand() *cobra.Command {
	l := listing[engine.Volume]{name: func(v engine.Volume) string { return v.Name }, text: volumesText,
		none: "there is no volume (make one with aether volume create)",
		page: func(ctx context.Context, client *rest.Client, tenant, after string) ([]engine.Volume, string, error) {
			page, err := client.ListVolumes(ctx, engine.VolumeQuery{Tenant: tenant, After: after})
			return page.Volumes, page.Next, err
		}}
	return l.command("List volumes, by name", "  aether volume list\n  aether volume list --tenant acme --json")
}

func volumesText(list []engine.Volume, s screen) string {
	t := table{titles: []string{"name", "tenant", "size", "made", "sandboxes"}}
	for _, v := range list {
		size := "unbounded"
		if v.Bytes > 0 {
			size = sizeText(&v.Bytes)
		}
		t.rows = append(t.rows, []cell{text(visible(v.Name)), text(visible(v.Tenant)), text(size), text(v.Created.Local().Format(time.DateTime)), text(fmt.Sprint(len(v.Sandboxes)))})
	}
	return t.render(s)
}

func volumeRemoveCommand() *cobra.Command {
	var tenant string
	cmd := &cobra.Command{
		Use: "rm NAME...", Aliases: []string{"remove"},
		Short:   "Remove volumes and everything in them",
		Long:    "Remove volumes and everything in them. One that a sandbox uses which has not ended is refused.",
		Example: "  aether volume rm data",
		Args:    atLeastOne("one name or more"),
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "those of this tenant, for operators")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			removed := []string{}
			var errs []error
			for _, name := range args {
				err := client.DeleteVolume(ctx, tenant, name)
				if err == nil {
					removed = append(removed, name)
				}
				errs = append(errs, err)
			}
			if *asJSON {
				errs = append(errs, printJSON(cmd, map[string][]string{"removed": removed}))
			}
			return errors.Join(errs...)
		})
	}
	return cmd
}

func atLeastOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return exactly(1, what)(cmd, args)
		}
		return nil
	}
}

// parseVolumes reads NAME:TARGET and NAME:TARGET:ro, as create takes them.
func parseVolumes(flag string, list []string) (mounts []engine.VolumeMount, err error) {
	for _, one := range list {
		name, target, ok := strings.Cut(one, ":")
		target, readOnly := strings.CutSuffix(target, ":ro")
		if !ok || name == "" || !strings.HasPrefix(target, "/") {
			return nil, sandbox.Invalidf(flag, "%.80q is not of the form NAME:/TARGET or NAME:/TARGET:ro", one)
		}
		mounts = append(mounts, engine.VolumeMount{Name: name, Target: target, ReadOnly: readOnly})
	}
	return mounts, nil
}
