package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"aether/engine/access"
	"aether/sandbox"
)

func keyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Make, list and revoke the keys of a daemon's callers",
		Long: `Make, list and revoke the keys by which callers of a daemon are known. A key belongs to a tenant,
whose sandboxes its holder sees, or to an operator, who sees all. It works on the daemon's state
directory, whether the daemon runs or not.`,
		Example: `  aether key create --tenant acme --expires 720h
  aether key create --operator
  aether key list
  aether key revoke 0123456789abcdef`,
		Args: knownSubcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := &keyFlags{}
	cmd.PersistentFlags().StringVar(&f.state, "state", "", "the state directory of the daemon (default: that of this user's)")
	cmd.AddCommand(keyCreateCommand(f), keyListCommand(f), keyRevokeCommand(f))
	return cmd
}

type keyFlags struct{ serveFlags }

func (f *keyFlags) keys(ctx context.Context) (*access.Keys, error) {
	return access.OpenKeys(ctx, f.stateDir(), nil)
}

// createdKey is the answer of create, the only one that has the key itself.
type createdKey struct {
	Secret string `json:"key"`
	access.Key
}

func keyCreateCommand(f *keyFlags) *cobra.Command {
	var (
		tenant   string
		operator bool
		expires  time.Duration
	)
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a key and print it, which is never done again",
		Example: `  aether key create --tenant acme
  AETHER_KEY=$(aether key create --operator)`,
		Args: noArguments,
	}
	flags := cmd.Flags()
	flags.StringVar(&tenant, "tenant", "default", "the tenant that the key belongs to")
	flags.BoolVar(&operator, "operator", false, "its holder sees and changes what is of any tenant")
	flags.DurationVar(&expires, "expires", 0, "the key is good for this long, such as 720h (default: for ever)")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if expires < 0 {
			return sandbox.Invalidf("--expires", "%v is negative", expires)
		}
		keys, err := f.keys(cmd.Context())
		if err != nil {
			return err
		}
		var until time.Time
		if expires > 0 {
			until = time.Now().Add(expires)
		}
		secret, key, err := keys.Create(cmd.Context(), tenant, operator, until)
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(cmd, createdKey{secret, key})
		}
		return printText(cmd, secret)
	}
	return cmd
}

func keyListCommand(f *keyFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the keys, by their ids",
		Example: `  aether key list
  aether key list --state /srv/aether --json`,
		Args: noArguments,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		keys, err := f.keys(cmd.Context())
		if err != nil {
			return err
		}
		list, err := keys.List(cmd.Context())
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(cmd, append([]access.Key{}, list...))
		}
		return printText(cmd, keysText(list, screenOf(cmd.OutOrStdout())))
	}
	return cmd
}

func keysText(list []access.Key, s screen) string {
	t := table{titles: []string{"id", "tenant", "role", "made", "state"}}
	for _, k := range list {
		role := "tenant"
		if k.Operator {
			role = "operator"
		}
		t.rows = append(t.rows, []cell{text(k.ID), text(k.Tenant), text(role), text(k.Created.Local().Format(time.DateTime)), text(keyState(k))})
	}
	return t.render(s)
}

func keyState(k access.Key) string {
	switch now := time.Now(); {
	case !k.Revoked.IsZero():
		return "revoked"
	case k.Expires.IsZero():
		return "good"
	case !now.Before(k.Expires):
		return "expired"
	default:
		return fmt.Sprintf("good for %s", k.Expires.Sub(now).Round(time.Minute))
	}
}

func keyRevokeCommand(f *keyFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "revoke ID",
		Short:   "Have a key open nothing from now on",
		Example: "  aether key revoke 0123456789abcdef",
		Args:    exactly(1, "one id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			keys, err := f.keys(cmd.Context())
			if err != nil {
				return err
			}
			return keys.Revoke(cmd.Context(), args[0])
		},
	}
}
