package process

import (
	"errors"
	"io"
	"os"

	"aether/internal/host/netdev"
	"aether/internal/network/control"
)

// serveStream has a gateway for a device that is elsewhere. The streams to it come later.
func (b *box) serveStream(s *server, r control.Request, _ *os.File) error {
	b.stream = netdev.NewStream(b.told.unplugged)
	return b.serveGateway(s, r, b.stream)
}

// plug gives a gateway another stream.
func (s *server) plug(id uint64, file *os.File) error {
	b := s.find(id)
	if b == nil || b.stream == nil {
		return errors.Join(errors.New("no such sandbox"), file.Close())
	}
	return b.stream.Plug(file)
}

// unplugged tells soon why a stream has ended.
func (t *teller) unplugged(why error) {
	text := why.Error()
	if errors.Is(why, io.EOF) {
		text = "it was closed"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.why = text
	t.soon()
}

func closeFile(file *os.File) error {
	if file == nil {
		return nil
	}
	return file.Close()
}
