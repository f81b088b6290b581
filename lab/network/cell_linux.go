package network

import (
	"bufio"
	"context"
	"errors"
	"io"
	"path/filepath"

	"aether/driver/cell"
	"aether/guest"
	"aether/image"
	"aether/network"
	"aether/sandbox"
)

// ahead is how many warm cells are kept ready, where any are.
const ahead = 16

// inside is where cells have the directory of the client.
const inside = "/lab"

// newCells makes a driver with a network. end must be called.
func (b *bench) newCells(name string, ahead int) (_ *cell.Driver, end func() error) {
	service := network.New(network.Options{})
	images := func() (*image.Store, error) { return image.Open(filepath.Join(b.dir, "images")) }
	driver := cell.New(cell.Options{Images: images, RunDir: filepath.Join(b.dir, name), Ahead: ahead, Network: service})
	return driver, func() error { return errors.Join(driver.Close(context.Background()), service.Close()) }
}

// egress is a network that allows the server.
func (b *bench) egress() sandbox.Network {
	return sandbox.Network{Mode: sandbox.EgressNetwork, Allow: []string{b.server}}
}

// inCell starts the client in a cell.
func (b *bench) inCell(ctx context.Context) (*client, error) {
	driver, end := b.newCells("run", 0)
	instance, err := driver.Create(ctx, sandbox.Spec{Network: b.egress(), Mounts: []sandbox.Mount{{Source: b.dir, Target: inside}}})
	if err != nil {
		return nil, errors.Join(err, end())
	}
	wire := guest.NewClient(instance.Dial, guest.ClientOptions{})
	stop := func() error {
		wire.Close()
		return end()
	}
	out, theirs := io.Pipe()
	said := &lastWords{}
	running, err := wire.Start(ctx, guest.Cmd{Path: filepath.Join(inside, filepath.Base(b.program)), Args: []string{"ask", b.server}, StdinPipe: true, Stdout: theirs, Stderr: said})
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	go func() {
		_, err := running.Wait()
		theirs.CloseWithError(errors.Join(err, io.EOF))
	}()
	return &client{in: running.Stdin(), out: bufio.NewReader(out), said: said.String, stop: stop}, nil
}
