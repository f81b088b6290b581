package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"aether/rest"
)

// listing lists what a tenant has of one kind, each with a name.
type listing[T any] struct {
	name func(T) string
	text func([]T, screen) string
	none string // what is said if there is nothing
	// page gives the ones after another, and where the next page begins.
	page func(ctx context.Context, client *rest.Client, tenant, after string) (list []T, next string, err error)
}

func (l listing[T]) command(short, example string) *cobra.Command {
	var tenant string
	var quiet bool
	cmd := &cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: short, Example: example, Args: noArguments}
	cmd.Flags().StringVar(&tenant, "tenant", "", "those of this tenant, for operators")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print names alone")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			list, err := l.all(ctx, client, tenant)
			switch {
			case err != nil:
				return err
			case *asJSON:
				return printJSON(cmd, list)
			case quiet:
				return printText(cmd, l.names(list))
			case len(list) == 0:
				printError(cmd, "aether: %s", l.none)
				return nil
			}
			return printText(cmd, l.text(list, screenOf(cmd.OutOrStdout())))
		})
	}
	return cmd
}

// all gives every page.
func (l listing[T]) all(ctx context.Context, client *rest.Client, tenant string) ([]T, error) {
	list, after := []T{}, ""
	for {
		page, next, err := l.page(ctx, client, tenant, after)
		if err != nil {
			return nil, err
		}
		list = append(list, page...)
		if after = next; next == "" {
			return list, nil
		}
	}
}

func (l listing[T]) names(list []T) string {
	names := make([]string, len(list))
	for i, one := range list {
		names[i] = l.name(one)
	}
	return strings.Join(names, "\n")
}
