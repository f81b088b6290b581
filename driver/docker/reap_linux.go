package docker

import (
	"context"
	"errors"

	"github.com/moby/moby/client"

	"aether/driver/daemon"
)

const (
	// ownerLabel names the program that a container belongs to.
	ownerLabel = "aether.owner"
	idLabel    = "aether.id"
)

// Reap implements sandbox.Reaper.
func (d *Driver) Reap(ctx context.Context) (int, error) {
	var api *client.Client
	meet := func() error {
		socket, err := d.opts.address()
		if err != nil {
			return err
		}
		if api, err = connect(socket); err != nil {
			return err
		}
		return ping(ctx, api, socket)
	}
	return daemon.Reap(d.opts.RunDir, meet, func(runDir string) (int, error) { return reap(ctx, api, runDir) })
}

// reap removes the containers of dead programs, and their locks.
func reap(ctx context.Context, api *client.Client, runDir string) (count int, err error) {
	dead := daemon.OpenGraveyard(runDir)
	defer func() { err = errors.Join(err, dead.Close()) }()
	list, err := api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", ownerLabel)})
	if err != nil {
		return 0, explain(err)
	}
	for _, c := range list.Items {
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
