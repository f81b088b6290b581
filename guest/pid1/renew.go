package pid1

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"aether/guest"
	"aether/sandbox"
)

const (
	holdPath  = "/aether/hold"
	letGoPath = "/aether/letgo"
	renewPath = "/aether/renew"
	goOnPath  = "/aether/goon"
)

// Held is a machine in which no command runs until LetGo: so that nothing of the user's runs in
// a copy of the machine before Renew.
type Held struct{ guest *guest.Poster }

// Hold has no command of a machine run.
func Hold(ctx context.Context, dial Dial) (Held, error) {
	h := Held{guest.NewPoster(dial)}
	if err := h.guest.Post(ctx, holdPath, nil); err != nil {
		h.guest.Close()
		return Held{}, err
	}
	return h, nil
}

// LetGo is as the function of that name, over the connection that Hold has made. It is given up
// then.
func (h Held) LetGo(ctx context.Context) error {
	defer h.guest.Close()
	return h.guest.Post(ctx, letGoPath, nil)
}

// Close gives the connection up, and lets nothing go.
func (h Held) Close() { h.guest.Close() }

// LetGo lets the commands go on that Hold has stopped, in this machine or in the one that it
// is a copy of.
func LetGo(ctx context.Context, dial Dial) error { return guest.Post(ctx, dial, letGoPath, nil) }

// Renewal makes a machine differ from the one that it is a copy of.
type Renewal struct {
	// Secret is mixed into the random numbers, which are drawn anew at once. It has 32 to
	// 512 bytes.
	Secret []byte    `json:"secret"`
	Now    time.Time `json:"now"`
	// Hostname is the machine's, and MachineID what /etc/machine-id says where there is
	// one: 32 digits of base 16.
	Hostname  string `json:"hostname"`
	MachineID string `json:"machine_id"`
}

// Validate checks everything that can be checked before anything is done.
func (r Renewal) Validate() error {
	const hostname, digits = 64, 32
	switch {
	case len(r.Secret) < minSecret || len(r.Secret) > maxControl:
		return sandbox.Invalidf("secret", "%d bytes are not between %d and %d", len(r.Secret), minSecret, maxControl)
	case r.Now.IsZero():
		return sandbox.Invalidf("now", "a machine that was copied does not know the time")
	case r.Hostname == "" || len(r.Hostname) > hostname:
		return sandbox.Invalidf("hostname", "it has %d bytes, and not 1 to %d", len(r.Hostname), hostname)
	case len(r.MachineID) != digits || strings.Trim(r.MachineID, "0123456789abcdef") != "":
		return sandbox.Invalidf("machine_id", "%.40q are not %d digits of base 16", r.MachineID, digits)
	}
	return nil
}

// maxRenewal bounds a Renewal on its way.
const maxRenewal = 4 << 10

// Renew makes a machine differ from the one that it is a copy of. What it was told is done
// when it returns.
func Renew(ctx context.Context, dial Dial, r Renewal) error {
	return sendRenewal(ctx, dial, renewPath, r)
}

// GoOn is Renew, and LetGo after it. Errors: Unsupported if the machine has been running since
// before there was such a thing.
func GoOn(ctx context.Context, dial Dial, r Renewal) error {
	return sendRenewal(ctx, dial, goOnPath, r)
}

func sendRenewal(ctx context.Context, dial Dial, path string, r Renewal) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return guest.Post(ctx, dial, path, bytes.NewReader(body))
}
