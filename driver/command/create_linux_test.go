package command

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"aether/sandbox"
)

// TestExplain: what the kernel refuses is told with what would mend it, unless the caller had
// given up by then.
func TestExplain(t *testing.T) {
	refused := fmt.Errorf("open /proc/1/root/mnt: %w", syscall.EACCES)
	gone, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for _, test := range []struct {
		name string
		ctx  context.Context
		err  error
		want sandbox.Class
	}{
		{"refused", t.Context(), refused, sandbox.Unavailable},
		{"refused too late", gone, refused, sandbox.Timeout},
		{"no room", t.Context(), syscall.EAGAIN, sandbox.Exhausted},
		{"what has a class keeps it", gone, sandbox.Invalidf("image", "none"), sandbox.Invalid},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := sandbox.ClassOf(explain(test.ctx, test.err)); got != test.want {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}
