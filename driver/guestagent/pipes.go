package guestagent

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"aether/guest/channel"
)

// Pipes are the standard descriptors of a program on the host that becomes, or
// leads to, the guest service: input and output are the channel, errors are kept
// to explain why the service did not come up.
type Pipes struct {
	child [3]*os.File
	own   [3]*os.File
	said  Said
	ended chan struct{} // closed when nothing more will be said
}

// NewPipes makes them; Close gives them back, also after Join.
func NewPipes() (p *Pipes, err error) {
	p = &Pipes{ended: make(chan struct{})}
	for i := range p.child {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		p.child[i], p.own[i] = w, r
		if i == 0 {
			p.child[i], p.own[i] = r, w
		}
	}
	return p, nil
}

// Child gives descriptors 0, 1 and 2 of the program to be started.
func (p *Pipes) Child() []*os.File { return p.child[:] }

// Started lets go of what the program has now, so that its end is noticed.
func (p *Pipes) Started() error {
	go p.listen()
	return closeAll(p.child[:])
}

func (p *Pipes) listen() {
	_, _ = io.Copy(&p.said, p.own[2]) // it ends with the program, or with Close
	close(p.ended)
}

const (
	// lastWords is how long a program that failed may take to say why, and this one to hear
	// it: a busy host has both wait.
	lastWords = 2 * time.Second
	// impatientWords is that for one that was waited for in vain, and may say nothing.
	impatientWords = 200 * time.Millisecond
)

// Join meets the service at the other end. A failure explains itself by what the
// program wrote to its standard error.
func (p *Pipes) Join(ctx context.Context, s Settings) (*channel.Dialer, error) {
	dialer, err := Meet(ctx, link{p}, s)
	return dialer, p.explain(ctx, err)
}

// Rejoin is Join with a service that was restored, and has its settings.
func (p *Pipes) Rejoin(ctx context.Context) (*channel.Dialer, error) {
	dialer, err := channel.Connect(ctx, link{p})
	return dialer, p.explain(ctx, err)
}

func (p *Pipes) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	wait := lastWords
	if ctx.Err() != nil {
		wait = impatientWords
	}
	select {
	case <-p.ended:
	case <-time.After(wait):
	}
	return p.said.Explain(err)
}

// link is the channel's part of the pipes.
type link struct{ *Pipes }

func (l link) Read(b []byte) (int, error)  { return l.own[1].Read(b) }
func (l link) Write(b []byte) (int, error) { return l.own[0].Write(b) }
func (l link) Close() error                { return closeAll(l.own[:2]) }

// Said is the end of what the program wrote to its standard error so far.
func (p *Pipes) Said() string { return p.said.String() }

// Close gives everything back. It is idempotent.
func (p *Pipes) Close() error { return errors.Join(closeAll(p.child[:]), closeAll(p.own[:])) }

// closeAll closes what is there and was not closed before.
func closeAll(files []*os.File) (err error) {
	for _, f := range files {
		if f == nil {
			continue
		}
		if closed := f.Close(); !errors.Is(closed, os.ErrClosed) {
			err = errors.Join(err, closed)
		}
	}
	return err
}
