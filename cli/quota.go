package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/rest"
)

func quotaCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "quota [TENANT]",
		Short: "Show what tenants have and may have",
		Long: `Show what tenants have of sandboxes, memory, CPUs, disk, snapshots and secrets, and
what they may have. Operators see all, or the one that is named; others see their own.`,
		Example: `  aether quota
  aether quota acme --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exactly(1, "at most one tenant")(cmd, args)
			}
			return nil
		},
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		tenant := ""
		if len(args) > 0 {
			tenant = args[0]
		}
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			list, err := client.Quotas(ctx, tenant)
			switch {
			case err != nil:
				return err
			case *asJSON:
				return printJSON(cmd, list)
			}
			return printText(cmd, quotasText(list, screenOf(cmd.OutOrStdout())))
		})
	}
	return cmd
}

func quotasText(list []engine.TenantQuota, s screen) string {
	t := table{titles: []string{"tenant", "sandboxes", "memory", "cpus", "disk", "snapshots", "secrets"}}
	for _, q := range list {
		t.rows = append(t.rows, []cell{text(visible(q.Tenant)), text(countOf(q.Used.Sandboxes, q.Quota.Sandboxes)), text(bytesOf(q.Used.MemoryBytes, q.Quota.MemoryBytes)),
			text(cpusOf(q)), text(bytesOf(q.Used.DiskBytes, q.Quota.DiskBytes)), text(countOf(q.Used.Snapshots, q.Quota.Snapshots)),
			text(countOf(q.Used.Secrets, q.Quota.Secrets))})
	}
	return t.render(s)
}

func countOf(used int64, quota *int64) string {
	return ofQuota(strconv.FormatInt(used, 10), quota != nil, func() string { return strconv.FormatInt(*quota, 10) })
}

func bytesOf(used int64, quota *int64) string {
	return ofQuota(sizeText(&used), quota != nil, func() string { return sizeText(quota) })
}

func cpusOf(q engine.TenantQuota) string {
	number := func(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
	return ofQuota(number(float64(q.Used.MilliCPUs)/1000), q.Quota.CPUs != nil, func() string { return number(*q.Quota.CPUs) })
}

// ofQuota says how much of how much, or of what is not bounded.
func ofQuota(used string, bounded bool, quota func() string) string {
	if !bounded {
		return used
	}
	return used + " of " + quota()
}
