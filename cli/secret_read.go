package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"aether/engine"
	"aether/sandbox"
)

// maxSecretInput is more than a value can be, with the line break after it.
const maxSecretInput = 64<<10 + 16

// readSecret reads a value from standard input, or asks for it where that is a terminal.
func readSecret(cmd *cobra.Command) (engine.SecretValue, error) {
	text, err := secretInput(cmd)
	defer clear(text)
	if err != nil {
		return engine.SecretValue{}, err
	}
	return engine.NewSecretValue(withoutLineEnd(text))
}

func secretInput(cmd *cobra.Command) ([]byte, error) {
	in := cmd.InOrStdin()
	if fd, ok := fileOf(in); ok && term.IsTerminal(fd) {
		return askSecret(cmd.Context(), cmd.ErrOrStderr(), in, fd)
	}
	text, err := io.ReadAll(io.LimitReader(in, maxSecretInput))
	if err != nil {
		return text, fmt.Errorf("read the value: %w", err)
	}
	if len(text) == 0 {
		return nil, &sandbox.Error{Class: sandbox.Invalid, Field: "standard input", Reason: "it has no value", Remedy: "give one, as in: aether secret set NAME < file"}
	}
	return text, nil
}

// askSecret reads a line from a terminal that does not show it, and that shows what is
// typed again when a signal ends the waiting. It asks when nothing is shown any more: who
// types at once, or pastes, is not faster than that.
func askSecret(ctx context.Context, to io.Writer, in io.Reader, terminal int) ([]byte, error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	read, show, err := hideInput(in, terminal)
	if err != nil {
		return nil, fmt.Errorf("read the value: %w", err)
	}
	if _, err := io.WriteString(to, "value (not shown): "); err != nil {
		return nil, errors.Join(err, show())
	}
	type line struct {
		text []byte
		err  error
	}
	typed := make(chan line, 1)
	go func() {
		text, err := read()
		typed <- line{text, err}
	}()
	var got line
	select {
	case got = <-typed:
	case <-ctx.Done():
		got.err = context.Cause(ctx)
	}
	shown := show()
	_, err = io.WriteString(to, "\n")
	if err := errors.Join(got.err, shown, err); err != nil {
		return got.text, fmt.Errorf("read the value: %w", err)
	}
	return got.text, nil
}

// withoutLineEnd leaves out the line break that echo, editors and printenv end a text with.
func withoutLineEnd(text []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
}
