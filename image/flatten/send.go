package flatten

import (
	"errors"
	"io"
)

// Send lets one function read what another packs, at the same time, and waits for
// both. Of two failures it gives the one that is the other's cause.
func Send(pack func(io.Writer) error, send func(io.Reader) error) error {
	files, into := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := pack(into)
		into.CloseWithError(err)
		packed <- err
	}()
	err := send(files)
	files.CloseWithError(err) // a packer that nobody reads from ends
	failed := <-packed
	if err != nil && (failed == nil || errors.Is(failed, io.ErrClosedPipe)) {
		return err
	}
	return failed
}
