//go:build !linux

package volume

import (
	"context"
	"errors"
)

// Least is the smallest bound of a volume.
const Least = 16 << 20

func format(context.Context, string, int64) error { return unbounded(errors.ErrUnsupported) }

func attach(string, string) error { return unbounded(errors.ErrUnsupported) }

func detach(string) error { return nil }
