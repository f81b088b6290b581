package cli

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"aether/engine"
	"aether/engine/access"
	"aether/internal/host/coredump"
	"aether/rest"
	"aether/rest/e2b"
)

// daemon is the life of serve.
type daemon struct {
	flags     serveFlags
	log       *slog.Logger
	engine    *engine.Engine
	server    *rest.Server
	dialect   *e2b.Dialect
	listeners []*rest.Listener
}

// run serves until a signal or the end of a listener, and then gives everything back.
func (d *daemon) run(ctx context.Context, drivers *drivers) (err error) {
	if err := d.flags.validate(); err != nil {
		return err
	}
	// Keys and secrets pass through its memory.
	if err := coredump.Refuse(); err != nil {
		d.log.Warn("a core dump of the daemon would be written", "err", err)
	}
	// Who reads the log may go away.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	if err := d.open(ctx, drivers); err != nil {
		return err
	}
	err = d.serve(ctx, reload)
	stop() // the next signal ends the program at once
	return errors.Join(err, d.close(context.WithoutCancel(ctx)))
}

// open begins an engine and its door. If it fails, nothing is left open.
func (d *daemon) open(ctx context.Context, drivers *drivers) (err error) {
	config, err := d.flags.access()
	if err != nil {
		return err
	}
	makers, err := d.flags.makers(drivers)
	if err != nil {
		return err
	}
	if d.engine, err = d.openEngine(ctx, engine.Options{Logger: d.log, State: d.flags.stateDir(), Drivers: makers, Access: config}); err != nil {
		return err
	}
	if err = d.openDoor(ctx); err != nil {
		return errors.Join(err, d.engine.Close(context.WithoutCancel(ctx)))
	}
	return nil
}

func (d *daemon) openDoor(ctx context.Context) error {
	keys, err := access.OpenKeys(ctx, d.flags.stateDir(), d.log)
	if err != nil {
		return err
	}
	secret, err := e2b.OpenKey(d.flags.stateDir())
	if err != nil {
		return err
	}
	if d.dialect, err = e2b.New(e2b.Options{Engine: d.engine, Key: secret, Domain: d.flags.domain}); err != nil {
		return err
	}
	d.server, err = rest.New(rest.Options{Engine: d.engine, Keys: keys, KeyStore: keys, Systems: systemsOf(d.engine.Drivers()), Count: d.engine.Count,
		Audit: d.record, Images: imageProgress, Agents: newAgents(d), Dialects: []rest.Dialect{d.dialect}, Logger: d.log})
	if err != nil {
		return err
	}
	d.listeners, err = d.flags.listeners(ctx, d.log)
	return err
}

// record puts a request on the audit trail.
func (d *daemon) record(c rest.Call) {
	d.engine.Record(c.Who, c.From, c.Operation, c.Sandbox, c.Time, c.Err)
}

// serve answers at every listener until the context or one of them ends.
func (d *daemon) serve(ctx context.Context, reload <-chan os.Signal) error {
	failed := make(chan error, len(d.listeners))
	for _, l := range d.listeners {
		d.log.Info("listening", "address", l.Addr().String())
		go func() { failed <- d.server.Serve(l) }()
	}
	if err := notifyReady(ctx); err != nil {
		d.log.Warn("the service manager could not be told that the daemon is ready", "err", err)
	}
	idle := d.idle(ctx)
	for {
		select {
		case <-idle:
			d.log.Info("nothing is left to do")
			return nil
		case <-ctx.Done():
			d.log.Info("stopping")
			return nil
		case err := <-failed:
			return err
		case <-reload:
			d.reload()
		}
	}
}

// reload reads the configuration again. A faulty one changes nothing.
func (d *daemon) reload() {
	config, err := d.flags.access()
	if err == nil {
		err = d.engine.SetAccess(config)
	}
	if err != nil {
		d.log.Error("the configuration is as it was", "err", err)
		return
	}
	d.log.Info("the configuration was read again")
}

// close lets requests come to their end, and then pauses and ends sandboxes.
func (d *daemon) close(ctx context.Context) error {
	draining, cancel := context.WithTimeout(ctx, d.flags.drain)
	defer cancel()
	if err := d.server.Close(draining); err != nil {
		d.log.Warn("not every request came to its end", "err", err)
	}
	d.dialect.Close()
	stopping, cancel := context.WithTimeout(ctx, d.flags.stop)
	defer cancel()
	return d.engine.Close(stopping)
}
