package cli

import (
	"github.com/spf13/cobra"

	"aether/image/kernel"
	"aether/sandbox"
)

func kernelCommand(drivers *drivers) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "kernel",
		Short:   "Fetch a kernel for machines",
		Long:    "Systems that run machines need a kernel. It is the host's own where this user may read that,\nthe file that AETHER_KERNEL names, or one that is fetched here.",
		Example: `  aether kernel install`,
		Args:    knownSubcommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(kernelInstallCommand(drivers))
	return cmd
}

func kernelInstallCommand(drivers *drivers) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Fetch the distribution's kernel for virtual machines",
		Long:  "Fetch the distribution's kernel for virtual machines with its package manager, and unpack it\namong Aether's own files: nothing is installed on the host, and no privilege is needed.",
		Example: `  aether kernel install
  aether kernel install --json`,
		Args: noArguments,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		for _, d := range drivers.All() {
			installer, ok := d.(kernel.Installer)
			if !ok {
				continue
			}
			printError(cmd, "aether: fetching a kernel; this can take a minute")
			k, err := installer.InstallKernel(cmd.Context())
			if err != nil {
				return err
			}
			if *asJSON {
				return printJSON(cmd, k)
			}
			return printText(cmd, k.Release+" "+k.Image+"\n")
		}
		return &sandbox.Error{Class: sandbox.Unsupported, Op: "kernel", Reason: "no system in this build runs machines"}
	}
	return cmd
}
