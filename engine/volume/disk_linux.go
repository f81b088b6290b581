package volume

import (
	"context"

	"aether/internal/host/loopdisk"
)

// Least is the smallest bound of a volume.
const Least = loopdisk.LeastLasting

func format(ctx context.Context, file string, bytes int64) error {
	if err := loopdisk.Supported(bytes); err != nil {
		return unbounded(err)
	}
	return unbounded(loopdisk.FormatLasting(ctx, file, bytes))
}

func attach(file, dir string) error { return unbounded(loopdisk.Attach(file, dir)) }

func detach(dir string) error { return loopdisk.Detach(dir) }
