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

func secretCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "secret",
		Short: "Set, list and remove secrets, which the daemon keeps encrypted",
		Long: `Set, list and remove secrets: named values of a tenant that the daemon keeps encrypted. Nobody is
told a value again.`,
		Example: `  aether secret set API_TOKEN --host api.example.com
  printenv API_TOKEN | aether secret set API_TOKEN
  aether secret list
  aether secret rm API_TOKEN`,
		Args: knownSubcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(secretSetCommand(), secretListCommand(), secretRemoveCommand())
	return cmd
}

func secretSetCommand() *cobra.Command {
	var (
		tenant  string
		hosts   []string
		anyHost bool
	)
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Make a secret, or replace its value",
		Long: `Make a secret, or replace its value, which is read from standard input, without the line break at
its end, or asked for on a terminal, where it is not shown. It is never an argument, which other users
of the host could read.

With --host it may be sent to those hosts alone. A value that is replaced keeps the hosts that it
had, unless others are given.`,
		Example: `  aether secret set API_TOKEN --host api.example.com --host '*.example.org'
  aether secret set API_TOKEN < token.txt
  aether secret set API_TOKEN --any-host`,
		Args:              secretName,
		ValidArgsFunction: completeSecrets(1),
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&hosts, "host", nil, "a host that it may be sent to, as api.example.com or '*.example.com'; repeatable")
	flags.BoolVar(&anyHost, "any-host", false, "let it be sent to any host, also if it was restricted")
	flags.StringVar(&tenant, "tenant", "", "of this tenant, for operators")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req := engine.SecretRequest{Tenant: tenant, Name: args[0], Hosts: hosts}
		if anyHost {
			if len(hosts) > 0 {
				return sandbox.Invalidf("--any-host", "it cannot be combined with --host")
			}
			req.Hosts = []string{}
		}
		var err error
		if req.Value, err = readSecret(cmd); err != nil {
			return err
		}
		defer req.Value.Clear()
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			made, err := client.SetSecret(ctx, req)
			if err != nil || !*asJSON {
				return err
			}
			return printJSON(cmd, made)
		})
	}
	return cmd
}

// secretName wants one name. What is refused is not repeated: people give the value too, or
// in its place.
func secretName(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		e := sandbox.Invalidf("arguments", "%s takes one name, %d arguments given", cmd.Name(), len(args))
		e.Remedy = "give the value on standard input, or when asked for it"
		return e
	}
	if !engine.IsSecretName(args[0]) {
		return sandbox.Invalidf("NAME", "a secret's name is letters, digits and underscores, at most 64, and begins with no digit")
	}
	return nil
}

func secretListCommand() *cobra.Command {
	l := listing[engine.Secret]{name: func(s engine.Secret) string { return s.Name }, text: secretsText,
		none: "there is no secret (make one with aether secret set)",
		page: func(ctx context.Context, client *rest.Client, tenant, after string) ([]engine.Secret, string, error) {
			page, err := client.Secrets(ctx, engine.SecretQuery{Tenant: tenant, After: after})
			return page.Secrets, page.Next, err
		}}
	return l.command("List secrets by name, without their values", "  aether secret list\n  aether secret list --tenant acme --json")
}

func secretsText(list []engine.Secret, s screen) string {
	t := table{titles: []string{"name", "tenant", "hosts", "made", "set"}}
	for _, one := range list {
		hosts := "any"
		if len(one.Hosts) > 0 {
			hosts = strings.Join(one.Hosts, " ")
		}
		t.rows = append(t.rows, []cell{text(visible(one.Name)), text(visible(one.Tenant)), text(visible(hosts)),
			text(one.Created.Local().Format(time.DateTime)), text(one.Updated.Local().Format(time.DateTime))})
	}
	return t.render(s)
}

func secretRemoveCommand() *cobra.Command {
	var tenant string
	cmd := &cobra.Command{
		Use: "rm NAME...", Aliases: []string{"remove"},
		Short:             "Remove secrets",
		Example:           "  aether secret rm API_TOKEN\n  aether secret rm $(aether secret list --quiet)",
		Args:              atLeastOne("one name or more"),
		ValidArgsFunction: completeSecrets(manyIDs),
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "those of this tenant, for operators")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			removed := []string{}
			var errs []error
			for _, name := range args {
				err := client.RemoveSecret(ctx, tenant, name)
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

// completeSecrets offers the names of secrets for the first n arguments.
func completeSecrets(n int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return askForCompletion(cmd, func(ctx context.Context, client *rest.Client) (offer []cobra.Completion, err error) {
			page, err := client.Secrets(ctx, engine.SecretQuery{})
			for _, s := range page.Secrets {
				offer = append(offer, cobra.CompletionWithDesc(s.Name, visible(fmt.Sprintf("of %s", s.Tenant))))
			}
			return offer, err
		}), cobra.ShellCompDirectiveNoFileComp
	}
}
