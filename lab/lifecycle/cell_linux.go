package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"aether/driver/cell"
	"aether/guest"
	"aether/image"
	"aether/internal/host/confine"
	"aether/lab"
	"aether/sandbox"
)

// ahead is how many warm cells are kept ready, where any are.
const ahead = 16

// cells are made by the driver from a Spec and reached without the wire of the
// guest service, as a program that embeds the engine does.
type cells struct {
	driver *cell.Driver
	spec   sandbox.Spec
}

func newCells(dir, root string, ahead int) cells {
	images := func() (*image.Store, error) { return image.Open(filepath.Join(dir, "images")) }
	driver := cell.New(cell.Options{Images: images, RunDir: filepath.Join(dir, "run"), Ahead: ahead})
	return cells{driver, sandbox.Spec{Image: root}}
}

func (c cells) close() error { return c.driver.Close(context.Background()) }

// embedded is a living cell and the way into it.
type embedded struct {
	sandbox.Instance
	backend guest.Backend
}

func (c cells) create(ctx context.Context) (*embedded, error) {
	instance, err := c.driver.Create(ctx, c.spec)
	if err != nil {
		return nil, err
	}
	inProcess, ok := instance.(guest.InProcess)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%T has its guest service elsewhere", instance), instance.Destroy(ctx))
	}
	service, err := inProcess.Guest()
	if err != nil {
		return nil, errors.Join(err, instance.Destroy(ctx))
	}
	return &embedded{instance, service.Backend()}, nil
}

func (c cells) cold(ctx context.Context) (lab.Sample, error) {
	out, err := newOutput()
	if err != nil {
		return lab.Sample{}, err
	}
	w := lab.StartWatch()
	made, err := c.create(ctx)
	w.Lap("create")
	if err != nil {
		return lab.Sample{}, errors.Join(err, out.close())
	}
	err = made.first(ctx, out, w)
	err = errors.Join(err, made.end())
	w.Lap("destroy")
	return w.Sample, err
}

func (c cells) live(ctx context.Context) (living, error) { return c.create(ctx) }

func (e *embedded) exec(ctx context.Context) (lab.Sample, error) {
	out, err := newOutput()
	if err != nil {
		return lab.Sample{}, err
	}
	w := lab.StartWatch()
	err = e.first(ctx, out, w)
	return w.Sample, err
}

// first runs the first program to its end.
func (e *embedded) first(ctx context.Context, out *output, w *lab.Watch) error {
	p, err := e.backend.Start(ctx, guest.Command{Path: firstPath, Args: []string{firstPath}, Env: []string{"PATH=/"}, Dir: "/",
		UID: confine.UserID, GID: confine.UserID, Stdout: out.write})
	w.Lap("exec")
	if err != nil {
		return errors.Join(err, out.close())
	}
	if err = out.write.Close(); err == nil {
		err = out.firstByte()
	}
	w.First("program's first byte")
	_, waited := p.Wait()
	err = errors.Join(err, waited, out.drained())
	w.Lap("program's end")
	return err
}

func (e *embedded) end() error { return e.Destroy(context.Background()) }
