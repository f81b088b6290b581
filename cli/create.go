package cli

import (
	"context"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

// createFlags are the flags of create, as typed.
type createFlags struct {
	runFlags
	terms    termFlags
	snapshot string
	files    func() sandbox.Fidelity
	volumes  []string
}

func createCommand(drivers *drivers) *cobra.Command {
	f := &createFlags{}
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a sandbox that stays, and print its id",
		Long: `Make a sandbox that stays until it is removed or its time is over, and print its id. It is held by
the daemon of AETHER_URL, or else by this user's own, which is started if it does not run and
ends when nothing is left in it.`,
		Example: `  id=$(aether create --memory 512M --timeout 1h)
  aether exec "$id" -- python3 -c 'print(6*7)'
  aether create --image ./rootfs --keep --auto-resume --metadata task=42
  aether create --snapshot 4c8v1b5n3q6w7k2m9x0r --timeout 1h
  aether create --volume data:/data --volume models:/models:ro
  aether create --isolation hardware --timeout 10m --on-timeout pause --json`,
		Args: noArguments,
	}
	f.registerSandbox(cmd, drivers)
	f.terms.register(cmd)
	cmd.Flags().StringVar(&f.template, "template", "", "fork this template of the daemon's, instead of starting from an image")
	cmd.Flags().StringVar(&f.snapshot, "snapshot", "", "go on from this snapshot, instead of starting from an image")
	f.files = filesFlag(cmd, "take the snapshot's files alone, and no processes")
	if err := cmd.RegisterFlagCompletionFunc("snapshot", completeSnapshots); err != nil {
		panic(err) // the flag was registered just above
	}
	cmd.Flags().StringArrayVar(&f.volumes, "volume", nil, "show a volume inside, as NAME:/TARGET or NAME:/TARGET:ro; repeatable")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		req, err := f.request(cmd, drivers)
		if err != nil {
			return err
		}
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			made, err := client.Create(ctx, req)
			switch {
			case err != nil:
				return asFlag(err)
			case *asJSON:
				return printJSON(cmd, made)
			}
			return printText(cmd, made.ID)
		})
	}
	return cmd
}

func (f *createFlags) request(cmd *cobra.Command, drivers *drivers) (req engine.CreateRequest, err error) {
	if err := f.terms.validate(); err != nil {
		return req, err
	}
	if f.image, err = absoluteImage(f.image); err != nil {
		return req, err
	}
	if req.Spec, err = f.spec(); err != nil {
		return req, err
	}
	if err := f.checkSource(cmd, req.Spec.Network); err != nil {
		return req, err
	}
	if f.template != "" || f.snapshot != "" {
		req.Spec = sandbox.Spec{Limits: req.Spec.Limits, Network: req.Spec.Network}
	}
	if req.Metadata, err = parseMetadata(f.terms.metadata); err != nil {
		return req, err
	}
	if req.Volumes, err = parseVolumes("--volume", f.volumes); err != nil {
		return req, err
	}
	req.Driver = f.driver
	if name, err := drivers.canonical(f.driver); err == nil {
		req.Driver = name // which another host's daemon may know by this name alone
	}
	req.Snapshot, req.Fidelity = f.snapshot, f.files()
	req.Template, req.Timeout, req.Then = f.template, f.terms.timeout, engine.Then(f.terms.onTimeout)
	req.Keep, req.AutoResume, req.Key = f.terms.keep, f.terms.autoResume, f.terms.key
	return req, nil
}

// checkSource refuses what a template or a snapshot has said already.
func (f *createFlags) checkSource(cmd *cobra.Command, n sandbox.Network) error {
	switch {
	case f.template != "" && f.snapshot != "":
		return sandbox.Invalidf("--snapshot", "it cannot be combined with --template")
	case f.snapshot == "" && f.files() != "":
		return sandbox.Invalidf("--files", "it needs --snapshot")
	case f.template == "" && f.snapshot == "":
		return nil
	}
	for _, name := range fixedByTemplate {
		if cmd.Flags().Changed(name) {
			return sandbox.Invalidf("--"+name, "a fork has what its template has, and so has what is made of a snapshot")
		}
	}
	return forkNetwork(n)
}
