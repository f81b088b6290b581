package main

import (
	"bytes"
	"io"
	"sync"
)

// mostSaid is how much of a command's output is kept.
const mostSaid = 32 << 20

// kept collects one stream of a command, shows it, and forgets what is too much.
type kept struct {
	text bytes.Buffer
	echo *echo
}

func (k *kept) Write(p []byte) (int, error) {
	if k.text.Len() < mostSaid {
		k.text.Write(p)
	}
	return len(p), k.echo.show(k, p)
}

// echo shows the streams of a command on the console. Every line begins with a mark,
// whichever stream was in the middle of which, so that none can pass for a result.
type echo struct {
	console io.Writer

	mu   sync.Mutex
	open *kept // the stream that has not ended its line
}

func (e *echo) show(from *kept, p []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var text bytes.Buffer
	if e.open != nil && e.open != from {
		text.WriteByte('\n')
		e.open = nil
	}
	for line := range bytes.Lines(p) {
		if e.open == nil {
			text.WriteString(said)
		}
		// A line that is drawn over would hide what it began with.
		text.Write(bytes.ReplaceAll(line, []byte("\r"), nil))
		e.open = from
		if bytes.HasSuffix(line, []byte("\n")) {
			e.open = nil
		}
	}
	_, err := e.console.Write(text.Bytes())
	return err
}
