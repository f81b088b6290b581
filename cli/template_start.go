package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"aether/cli/holder"
	"aether/engine"
	"aether/image"
	"aether/sandbox"
)

// order is what a holder is told on its standard input.
type order struct {
	Recipe engine.Recipe `json:"recipe"`
	Driver string        `json:"driver,omitempty"`
	Ahead  int           `json:"ahead,omitempty"`
}

// news is what a holder says on its standard output until it is ready.
type news struct {
	Step  string          `json:"step,omitempty"`
	Image *image.Progress `json:"image,omitempty"`
	Ready *holder.Info    `json:"ready,omitempty"`
	Error *holder.Failure `json:"error,omitempty"`
}

// keep is the line that lets a holder go on without us.
const keep = "keep\n"

// giveUpTime is how long a holder that is not wanted any more may take to end.
const giveUpTime = 30 * time.Second

// startHolder runs this program again in the background, to hold the template, and
// waits until it is ready. Until then the holder ends with us.
func startHolder(cmd *cobra.Command, f *prepareFlags) (holder.Info, error) {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	child, err := holderProcess(f.recipe.Name)
	if err != nil {
		return holder.Info{}, err
	}
	orders, err := child.StdinPipe()
	if err != nil {
		return holder.Info{}, err
	}
	said, err := child.StdoutPipe()
	if err != nil {
		return holder.Info{}, err
	}
	if err := child.Start(); err != nil {
		return holder.Info{}, err
	}
	// Without its orders the holder ends by itself, and else by force.
	defer context.AfterFunc(ctx, func() {
		orders.Close()
		time.AfterFunc(giveUpTime, func() { _ = child.Process.Kill() })
	})()
	info, err := direct(cmd, f, orders, said)
	if err != nil {
		waited := errors.Join(orders.Close(), child.Wait())
		var exit *exec.ExitError
		if errors.As(waited, &exit) || ctx.Err() != nil {
			waited = nil // why is known
		}
		return info, errors.Join(ctx.Err(), err, waited)
	}
	return info, errors.Join(orders.Close(), child.Process.Release())
}

// holderProcess is in a session of its own: it outlives our terminal.
func holderProcess(name string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	child := exec.Command(self, "template", "hold", name)
	child.Dir = "/"
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return child, nil
}

// direct gives the orders and follows the news until the template is ready.
func direct(cmd *cobra.Command, f *prepareFlags, orders io.Writer, said io.Reader) (holder.Info, error) {
	if err := json.NewEncoder(orders).Encode(order{f.recipe, f.driver, f.ahead}); err != nil {
		return holder.Info{}, err
	}
	observe, drawn := watchProgress(cmd, f.json)
	defer drawn()
	for decoder := json.NewDecoder(bufio.NewReader(said)); ; {
		var n news
		if err := decoder.Decode(&n); err != nil {
			return holder.Info{}, &sandbox.Error{Op: "template " + f.recipe.Name, Reason: "its holder ended without a word", Err: err}
		}
		switch {
		case n.Error != nil:
			return holder.Info{}, n.Error.Err()
		case n.Ready != nil:
			_, err := io.WriteString(orders, keep)
			return *n.Ready, err
		default:
			observe(n)
		}
	}
}
