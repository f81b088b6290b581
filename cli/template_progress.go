package cli

import (
	"sync"
	"time"

	"github.com/spf13/cobra"

	"aether/image"
	"aether/rest"
)

// watchProgress draws what a daemon says while it prepares, if that takes longer
// than a moment, on a terminal that is standard error.
func watchProgress(cmd *cobra.Command, json bool) (observe func(rest.TemplateProgress), done func()) {
	stderr := cmd.ErrOrStderr()
	screen := screenOf(stderr)
	if screen.width == 0 || json {
		return func(rest.TemplateProgress) {}, func() {}
	}
	w := &stepLine{line: progressLine{to: stderr, width: screen.width}, began: time.Now()}
	stop := make(chan struct{})
	var drawing sync.WaitGroup
	drawing.Go(func() { w.run(stop) })
	return w.observe, func() {
		close(stop)
		drawing.Wait()
	}
}

// stepLine is a progress line that says which step is being done.
type stepLine struct {
	line  progressLine
	began time.Time

	mu   sync.Mutex
	text string
}

func (w *stepLine) observe(n rest.TemplateProgress) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n.Step != "" {
		w.text = "aether: " + n.Step
	}
	if n.Image != nil {
		w.text = progressText(image.Progress(*n.Image))
	}
}

func (w *stepLine) run(stop <-chan struct{}) {
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if time.Since(w.began) >= patience {
				w.line.draw(w.now())
			}
		case <-stop:
			w.line.draw("")
			return
		}
	}
}

// now is plain ASCII: lines are cut by bytes.
func (w *stepLine) now() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return asciiOnly(w.text)
}

func asciiOnly(text string) string {
	out := []byte(text)
	for i, c := range out {
		if c < ' ' || c > '~' {
			out[i] = '?'
		}
	}
	return string(out)
}
