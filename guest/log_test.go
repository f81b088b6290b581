package guest

import (
	"bytes"
	"errors"
	"log"
	"log/slog"
	"os"
	"strings"
	"testing"
)

// TestPlainLogger compares with what slog writes where nobody set anything up.
func TestPlainLogger(t *testing.T) {
	var text bytes.Buffer
	log.SetOutput(&text)
	defer log.SetOutput(os.Stderr)
	for _, to := range []Logger{plainLogger{}, slog.Default()} {
		to.Warn("guest: a message", "pid", 7, "err", errors.New("no\nroom"))
		to.Error("guest: another")
	}
	var lines []string
	for line := range strings.Lines(text.String()) {
		_, said, _ := strings.Cut(line, " ") // the date
		_, said, _ = strings.Cut(said, " ")  // the time
		lines = append(lines, said)
	}
	want := []string{"WARN guest: a message pid=\"7\" err=\"no\\nroom\"\n", "ERROR guest: another\n", "WARN guest: a message pid=7 err=\"no\\nroom\"\n", "ERROR guest: another\n"}
	if len(lines) != 4 || lines[0] != want[0] || lines[1] != want[1] || lines[2] != want[2] || lines[3] != want[3] {
		t.Errorf("%q", lines)
	}
}
