package docker

import (
	"context"
	"errors"

	"aether/driver/daemon"
)

const (
	// ownerLabel names the program that a container belongs to.
	ownerLabel = "aether.owner"
	idLabel    = "aether.id"
)

// Reap implements sandbox.Reaper.
func (d *Driver) Reap(ctx context.Context) (int, error) {
	var api *client
	meet := func() error {
		socket, err := d.opts.address()
		if err != nil {
			return err
		}
		api = connect(socket)
		return api.ping(ctx)
	}
	return daemon.Reap(d.opts.RunDir, meet, func(runDir string) (int, error) { return reap(ctx, api, runDir) })
}

// reap removes the containers of dead programs, and their locks.
func reap(ctx context.Context, api *client, runDir string) (count int, err error) {
	dead := daemon.OpenGraveyard(runDir)
	defer func() { err = errors.Join(err, dead.Close()) }()
	var list []struct {
		ID     string `json:"Id"`
		Labels map[string]string
	}
	query := labelled(ownerLabel)
	query.Set("all", "1")
	if err := api.get(ctx, "/containers/json", query, &list); err != nil {
		return 0, explain(err)
	}
	for _, c := range list {
		if !dead.Has(c.Labels[ownerLabel]) {
			continue
		}
		if err := remove(ctx, api, c.ID); err != nil {
			return count, err
		}
		count++
	}
	return count, nil
}
