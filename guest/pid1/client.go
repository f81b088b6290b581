package pid1

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"aether/guest"
)

// Routes of a machine's init, of which a container's has those of files.
const (
	clockPath     = "/aether/clock"
	entropyPath   = "/aether/entropy"
	powerOffPath  = "/aether/poweroff"
	configurePath = "/aether/configure"
	filesPath     = "/aether/files"
	ownPath       = "/aether/own"
)

// Dial opens a connection to a first process, as sandbox.Instance.Dial does.
type Dial func(context.Context) (net.Conn, error)

// SetClock sets a machine's time, which stood still while it was paused, stored
// or on its way.
func SetClock(ctx context.Context, dial Dial, now time.Time) error {
	return guest.Post(ctx, dial, clockPath, strings.NewReader(now.UTC().Format(time.RFC3339Nano)))
}

// AddEntropy gives a machine up to 512 bytes that nobody else knows.
func AddEntropy(ctx context.Context, dial Dial, secret []byte) error {
	return guest.Post(ctx, dial, entropyPath, bytes.NewReader(secret))
}

// Configure makes somebody's machine of one that awaits it, once. A machine that
// could not be set up is of no use any more.
func Configure(ctx context.Context, dial Dial, c Configuration) error {
	body, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return guest.Post(ctx, dial, configurePath, bytes.NewReader(body))
}

// PowerOff ends a machine. It may end before it answers: only its monitor knows.
func PowerOff(ctx context.Context, dial Dial) error {
	return guest.Post(ctx, dial, powerOffPath, nil)
}

// Files writes what a machine has written to its file systems in memory, or all that is
// in the root of a container, as an archive for PutFiles. Its commands stand still
// meanwhile. What it sends is the guest's word and no longer than a bound. Errors:
// Exhausted for more.
func Files(ctx context.Context, dial Dial, to io.Writer, most int64) error {
	return guest.Fetch(ctx, dial, filesPath, to, most)
}

// PutFiles gives a machine of the same disk or a container of the same image, in which
// nothing runs yet, what Files has written.
func PutFiles(ctx context.Context, dial Dial, from io.Reader) error {
	return guest.Post(ctx, dial, filesPath, io.NopCloser(from))
}

// ReadFile gives the contents of a file that the first process's own user may read, and
// WriteFile makes or replaces one in one step, which all may read. They are for the owner of
// the sandbox: whatever token its service asks others for is not asked for.
func ReadFile(ctx context.Context, dial Dial, name string) ([]byte, error) {
	var text bytes.Buffer
	err := guest.Fetch(ctx, dial, own(name), &text, maxOwn)
	return text.Bytes(), err
}

// WriteFile is described with ReadFile.
func WriteFile(ctx context.Context, dial Dial, name string, contents []byte) error {
	return guest.Post(ctx, dial, own(name), bytes.NewReader(contents))
}

func own(name string) string { return ownPath + "?" + url.Values{"path": {name}}.Encode() }

// maxOwn bounds such a file.
const maxOwn = 5 << 20
