package guest

import (
	"fmt"
	"log"
	"strings"
)

// Logger is told what fails in the background, where no caller waits for an answer.
// A *slog.Logger is one. It is an interface because aether-guest, which is in every
// sandbox of a machine or container, has no room for log/slog.
type Logger interface {
	Warn(msg string, args ...any)
	Error(msg string, args ...any)
}

// plainLogger writes as slog.Default() does, by package log.
type plainLogger struct{}

func (plainLogger) Warn(msg string, args ...any)  { log.Print("WARN ", plainText(msg, args)) }
func (plainLogger) Error(msg string, args ...any) { log.Print("ERROR ", plainText(msg, args)) }

func plainText(msg string, args []any) string {
	for i := 0; i+1 < len(args); i += 2 {
		msg += fmt.Sprintf(" %v=%q", args[i], fmt.Sprint(args[i+1]))
	}
	return msg
}

// serverLog passes on what package net/http has to say.
type serverLog struct{ Logger }

func (l serverLog) Write(line []byte) (int, error) {
	l.Warn("guest: the HTTP server complains", "said", strings.TrimSpace(string(line)))
	return len(line), nil
}
