package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"aether/cli/holder"
	"aether/engine"
	"aether/image"
	"aether/sandbox"
)

// templateHoldCommand is what prepare runs in the background; it is no command for
// people.
func templateHoldCommand(drivers *drivers) *cobra.Command {
	return &cobra.Command{
		Use: "hold NAME", Hidden: true, Args: exactly(1, "one name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			h := &holding{name: args[0], drivers: drivers, orders: bufio.NewReader(cmd.InOrStdin()), out: json.NewEncoder(cmd.OutOrStdout())}
			return h.run(cmd.Context())
		},
	}
}

// holding is the life of a holder.
type holding struct {
	name    string
	drivers *drivers
	orders  *bufio.Reader
	mu      sync.Mutex
	out     *json.Encoder
}

// say tells whoever prepares the template. Once that one is gone, nobody listens.
func (h *holding) say(n news) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_ = h.out.Encode(n)
}

// run reports every failure to whoever prepares the template.
func (h *holding) run(ctx context.Context) error {
	err := h.hold(ctx)
	if err == nil {
		return nil
	}
	failure := holder.FailureOf(err)
	h.say(news{Error: &failure})
	return exitCode(1)
}

func (h *holding) hold(ctx context.Context) error {
	// Whoever prepares the template may go away while it is told something.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var o order
	if err := h.readOrder(&o); err != nil {
		return err
	}
	go h.awaitKeep(cancel)
	place, err := templates().Take(ctx, h.name)
	if err != nil {
		return err
	}
	// Nobody reads what this program says: its log is in the template's directory.
	logger := place.Logger()
	slog.SetDefault(logger)
	e := engine.New(engine.Options{Logger: logger})
	served, err := h.serve(ctx, place, e, o)
	if err = errors.Join(err, e.Close(ctx)); err != nil && served {
		logger.Error("the template has ended", "err", err) // and leave all that for people to find
		return err
	}
	return errors.Join(err, place.Release())
}

// serve prepares the template and serves it, and says whether it came to that.
func (h *holding) serve(ctx context.Context, place *holder.Place, e *engine.Engine, o order) (served bool, err error) {
	if err := place.Announce(o.Recipe); err != nil {
		return false, err
	}
	template, err := h.prepare(ctx, e, o)
	if err != nil {
		return false, err
	}
	opts := holder.Options{Engine: e, Template: template, Ahead: o.Ahead, Ready: func(info holder.Info) { h.say(news{Ready: &info}) }}
	return true, place.Serve(ctx, opts)
}

// readOrder reads one line, which is as long as its code.
func (h *holding) readOrder(o *order) error {
	line, err := h.orders.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, o)
}

// awaitKeep ends the holder if whoever prepares the template goes away before it
// has said that it is to be kept.
func (h *holding) awaitKeep(cancel func()) {
	if line, err := h.orders.ReadString('\n'); err != nil || line != keep {
		cancel()
	}
}

func (h *holding) prepare(ctx context.Context, e *engine.Engine, o order) (*engine.Template, error) {
	list, err := h.drivers.candidates(o.Driver, o.Recipe.Spec.Isolation)
	if err != nil {
		return nil, err
	}
	ctx = image.WithProgress(ctx, h.imageProgress())
	var first error // what the best one lacks is the first thing to mend
	for d := range list.All() {
		t, err := e.Prepare(ctx, d, o.Recipe, func(step string) { h.say(news{Step: step}) })
		if err == nil {
			return t, nil
		}
		if class := sandbox.ClassOf(err); class != sandbox.Unavailable && class != sandbox.Unsupported {
			return nil, err
		}
		first = cmp.Or(first, err)
	}
	return nil, first
}

// imageProgress passes on what is seen of an image, no faster than it is drawn.
func (h *holding) imageProgress() func(image.Progress) {
	var mu sync.Mutex
	var last time.Time
	return func(p image.Progress) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(last) >= redraw {
			last = time.Now()
			h.say(news{Image: &p})
		}
	}
}
