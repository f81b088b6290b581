package holder

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"aether/internal/bounded"
	"aether/interpreter"
	"aether/sandbox"
)

// Child is a sandbox that a holder has forked. It ends when this program does.
type Child struct {
	client *Client
	born   born
	answer io.ReadCloser // of the fork, which stays open
	unlink context.CancelFunc

	closing sync.Once
	ended   chan struct{}
}

var _ sandbox.Instance = (*Child)(nil)

// forkTime bounds how long a holder may take for a child.
const forkTime = 2 * time.Minute

// Fork asks for a child. The context bounds the asking only.
func (c *Client) Fork(ctx context.Context, spec sandbox.Spec) (*Child, error) {
	ctx, cancel := context.WithTimeout(ctx, forkTime)
	defer cancel()
	life, unlink := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, unlink)
	res, err := c.send(life, http.MethodPost, "/children", forkRequest{spec})
	if err != nil {
		unlink()
		return nil, errors.Join(ctx.Err(), err)
	}
	child := &Child{client: c, answer: res.Body, unlink: unlink, ended: make(chan struct{})}
	decoder := json.NewDecoder(&bounded.Reader{From: res.Body, What: "the answer of its holder", Max: maxRequest})
	err = decoder.Decode(&child.born)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		unlink()
		return nil, errors.Join(err, res.Body.Close())
	}
	go child.follow(decoder)
	return child, nil
}

// follow waits for the end of the answer, which is that of the child.
func (c *Child) follow(decoder *json.Decoder) {
	// Nothing follows; whichever way reading fails, the child has ended.
	_ = decoder.Decode(&struct{}{})
	c.answer.Close()
	c.unlink()
	close(c.ended)
}

// ID implements sandbox.Instance.
func (c *Child) ID() string { return c.born.ID }

// Resident is the number inside of the process that the template left running, and
// Handle its name if it is an interpreter.
func (c *Child) Resident() int               { return c.born.Resident }
func (c *Child) Handle() *interpreter.Handle { return c.born.Handle }

// Took is how long the fork took.
func (c *Child) Took() time.Duration { return c.born.Took }

// Dial implements sandbox.Instance.
func (c *Child) Dial(ctx context.Context) (net.Conn, error) {
	return c.client.upgrade(ctx, "/children/"+c.born.ID+"/dial")
}

// Stats implements sandbox.Instance.
func (c *Child) Stats(ctx context.Context) (stats sandbox.Stats, err error) {
	return stats, c.client.call(ctx, http.MethodGet, "/children/"+c.born.ID+"/stats", nil, &stats)
}

// Wait implements sandbox.Instance. Why it ended is known to its holder only.
func (c *Child) Wait(ctx context.Context) (sandbox.Exit, error) {
	select {
	case <-c.ended:
		return sandbox.Exit{Cause: sandbox.Destroyed}, nil
	case <-ctx.Done():
		return sandbox.Exit{}, ctx.Err()
	}
}

// destroyTime bounds the end of a child. A holder that does not answer by then has lost
// its connection to us, with which the child ends too.
const destroyTime = 10 * time.Second

// Destroy implements sandbox.Instance.
func (c *Child) Destroy(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyTime)
	defer cancel()
	c.closing.Do(func() {
		err = c.client.call(ctx, http.MethodDelete, "/children/"+c.born.ID, nil, nil)
		switch sandbox.ClassOf(err) {
		case sandbox.NotFound, sandbox.Unavailable:
			err = nil // it, or its holder, has ended before
		}
		c.unlink()
	})
	select {
	case <-c.ended:
		return err
	case <-ctx.Done():
		return errors.Join(err, ctx.Err())
	}
}

// Driver is a template in the place of a driver: what it creates are its children.
type Driver struct {
	client *Client
	info   Info
}

var _ sandbox.Driver = (*Driver)(nil)

// Driver asks the holder what it is and gives it as a driver.
func (c *Client) Driver(ctx context.Context) (*Driver, error) {
	info, err := c.Info(ctx)
	if err != nil {
		return nil, err
	}
	return &Driver{c, info}, nil
}

// Template is what the holder said when it was asked.
func (d *Driver) Template() Info { return d.info }

// Info implements sandbox.Driver.
func (d *Driver) Info() sandbox.Info {
	return sandbox.Info{Name: d.info.Driver, Boundary: d.info.Boundary}
}

// Probe implements sandbox.Driver.
func (d *Driver) Probe(ctx context.Context) sandbox.Report {
	if _, err := d.client.Info(ctx); err != nil {
		return sandbox.Report{Reason: err.Error(), Remedy: "prepare the template anew"}
	}
	return sandbox.Report{Usable: true}
}

// Create implements sandbox.Driver.
func (d *Driver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Instance, error) {
	child, err := d.client.Fork(ctx, spec)
	if err != nil {
		return nil, err
	}
	return child, nil
}
