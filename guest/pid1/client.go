package pid1

import (
	"context"
	"encoding/json"
	"net"
	"time"

	"aether/guest"
)

// Dial opens a connection to a first process, as sandbox.Instance.Dial does.
type Dial func(context.Context) (net.Conn, error)

// SetClock sets a machine's time, which stood still while it was paused, stored
// or on its way.
func SetClock(ctx context.Context, dial Dial, now time.Time) error {
	return guest.Post(ctx, dial, "/aether/clock", []byte(now.UTC().Format(time.RFC3339Nano)))
}

// AddEntropy gives a machine up to 512 bytes that nobody else knows.
func AddEntropy(ctx context.Context, dial Dial, secret []byte) error {
	return guest.Post(ctx, dial, "/aether/entropy", secret)
}

// Configure makes somebody's machine of one that awaits it, once. A machine that
// could not be set up is of no use any more.
func Configure(ctx context.Context, dial Dial, c Configuration) error {
	body, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return guest.Post(ctx, dial, "/aether/configure", body)
}

// PowerOff ends a machine. It may end before it answers: only its monitor knows.
func PowerOff(ctx context.Context, dial Dial) error {
	return guest.Post(ctx, dial, "/aether/poweroff", nil)
}
