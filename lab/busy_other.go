//go:build !linux

package lab

import (
	"context"
	"time"
)

// Busy is the share of the host's processors that was used during a while.
func Busy(context.Context, time.Duration) (float64, error) { return 0, errNotHere }
