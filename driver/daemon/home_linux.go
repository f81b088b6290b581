package daemon

import (
	"context"
	"errors"
	"path/filepath"
	"sync"

	"aether/driver/guestagent"
	"aether/image"
	"aether/image/overlay"
	"aether/internal/host/storedir"
)

// Home is what a program that makes sandboxes holds on this host as long as it
// lives. Its zero value is ready to be opened.
type Home struct {
	mu     sync.Mutex
	opened bool

	RunDir string
	Images *image.Store
	Bare   overlay.Bare
	Owner  *Owner
	Fleet  guestagent.Fleet
}

// Open calls start at the first need of a driver, which furnishes the home. A
// daemon that is down now may be there the next time, so a failure is not
// remembered.
func (h *Home) Open(driver string, start func() error) error {
	leave, err := h.Fleet.Enter(driver) // a closed driver stays closed
	if err != nil {
		return err
	}
	defer leave()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.opened {
		err = start()
		h.opened = err == nil
	}
	return err
}

// Furnish makes what is kept on this host, after reap has removed what dead
// programs left at the daemon.
func (h *Home) Furnish(dir string, images func() (*image.Store, error), reap func(runDir string) (int, error)) (err error) {
	if h.RunDir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if err := storedir.Prepare(h.RunDir); err != nil {
		return err
	}
	if _, err := reap(h.RunDir); err != nil {
		return err
	}
	if h.Bare, err = overlay.MakeBare(filepath.Join(h.RunDir, "bare")); err != nil {
		return err
	}
	if h.Images, err = images(); err != nil {
		return err
	}
	h.Owner, err = newOwner(h.RunDir)
	return err
}

// Close ends all sandboxes and then, if the home was opened, does what else is to
// be done before the lock goes.
func (h *Home) Close(ctx context.Context, last ...func() error) error {
	first, err := h.Fleet.Close(ctx)
	if !first || !h.opened {
		return err
	}
	for _, do := range append(last, h.Owner.Close) {
		err = errors.Join(err, do())
	}
	return err
}
