package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"aether/image"
	"aether/network/list"
	"aether/rest"
)

// patience is how long an image may take before its progress is shown. Tests have their
// own.
var patience = time.Second

// redraw is how often that is drawn: slower than a terminal, faster than a reader.
const redraw = 100 * time.Millisecond

// showProgress has the progress of images, and who is asked for a list, drawn on the terminal that is standard
// error; where that is none, or a program reads the answer, nothing is drawn. The
// line is gone when done returns, and nobody else may write there before.
func showProgress(ctx context.Context, cmd *cobra.Command, json bool) (_ context.Context, done func()) {
	stderr := cmd.ErrOrStderr()
	screen := screenOf(stderr)
	if screen.width == 0 || json {
		return ctx, func() {}
	}
	line := &progressLine{to: stderr, width: screen.width}
	stop := make(chan struct{})
	var drawing sync.WaitGroup
	drawing.Go(func() { line.run(stop) })
	ctx = image.WithProgress(ctx, func(p image.Progress) { line.observe(func() string { return progressText(p) }) })
	ctx = list.WithProgress(ctx, func(names []string) { line.observe(func() string { return askingText(names) }) })
	return ctx, func() {
		close(stop)
		drawing.Wait()
	}
}

// progressLine is the last line of a terminal, while something is on its way.
type progressLine struct {
	to    io.Writer
	width int
	drawn int // columns

	mu    sync.Mutex
	began time.Time // when the first report came
	now   func() string
}

// observe is called at every read from a source, and so only takes notes.
func (l *progressLine) observe(text func() string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.began.IsZero() {
		l.began = time.Now()
	}
	l.now = text
}

func (l *progressLine) run(stop <-chan struct{}) {
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if text, late := l.late(); late {
				l.draw(text())
			}
		case <-stop:
			l.draw("")
			return
		}
	}
}

// late says whether somebody has waited long enough to be told.
func (l *progressLine) late() (text func() string, late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now, !l.began.IsZero() && time.Since(l.began) >= patience
}

// draw replaces the line. It needs nothing of the terminal but a carriage return.
func (l *progressLine) draw(text string) {
	// The last column is left free: some terminals begin a new line with it.
	text = text[:min(len(text), l.width-1)]
	if text == "" && l.drawn == 0 {
		return
	}
	line := "\r" + text + strings.Repeat(" ", max(0, l.drawn-len(text)))
	if text == "" {
		line += "\r"
	}
	l.drawn = len(text)
	// What cannot be drawn must not fail the run.
	_, _ = io.WriteString(l.to, line)
}

// progressText is plain ASCII: it is cut by bytes.
func progressText(p image.Progress) string {
	if p.Layers == 0 {
		return "aether: asking for the image"
	}
	unit, name := unitOf(p.Total)
	return fmt.Sprintf("aether: preparing the image: %d of %d layers, %.1f of %.1f %s",
		p.Ready, p.Layers, float64(p.Done)/unit, float64(p.Total)/unit, name)
}

// askingText says who is asked which hosts are used.
func askingText(names []string) string {
	if len(names) == 0 {
		return "aether: looking where the hosts of the lists are"
	}
	return visible("aether: asking which hosts are used: " + strings.Join(names, ", "))
}

// unitOf chooses the unit in which a size is read best.
func unitOf(size int64) (unit float64, name string) {
	switch {
	case size >= 1<<30:
		return 1 << 30, "GiB"
	case size >= 1<<20:
		return 1 << 20, "MiB"
	}
	return 1 << 10, "KiB"
}

// imageProgress has a daemon pass on what is seen of an image, no faster than it is drawn.
func imageProgress(ctx context.Context, tell func(rest.ImageProgress)) context.Context {
	var mu sync.Mutex
	var last time.Time
	return image.WithProgress(ctx, func(p image.Progress) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(last) >= redraw {
			last = time.Now()
			tell(rest.ImageProgress(p))
		}
	})
}
