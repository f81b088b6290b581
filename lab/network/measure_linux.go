package network

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"time"

	"aether/lab"
	"aether/sandbox"
)

const (
	warmup = 2
	breath = 5 * time.Millisecond
	// streamTime and requestTime are how long one turn lasts.
	streamTime  = 300 * time.Millisecond
	requestTime = 100 * time.Millisecond
	// streamRounds is how many turns of those there are at most.
	streamRounds = 20
)

// bench is one run, with a place of its own for everything.
type bench struct {
	opts    Options
	rounds  lab.Rounds
	host    *host
	dir     string
	program string // the client
	server  string // its address
	undo    []func() error
	systems []*system
}

// system is one whose network is measured.
type system struct {
	name    string
	client  *client // nil for one that does not run here
	skipped error
}

// ask has something measured. A peer that fails is left out from then on: some stop in the
// middle of a stream and never go on.
func (s *system) ask(what string, during time.Duration, unit float64) (lab.Sample, error) {
	if s.skipped != nil {
		return lab.Sample{}, nil
	}
	sample, err := s.client.ask(what, during, unit)
	if err != nil && s.name != rowCell {
		first, _, _ := strings.Cut(err.Error(), "\n")
		s.skipped, err = errors.New("it failed in the middle of the run: "+first), nil
	}
	return sample, err
}

// Measure runs the whole benchmark.
func Measure(ctx context.Context, opts Options, say *lab.Progress) (r Report, err error) {
	b := &bench{opts: opts, rounds: lab.Rounds{Count: opts.Rounds, Warmup: warmup, Breath: breath, Patience: time.Minute}}
	defer func() { err = errors.Join(err, b.close()) }()
	say.Say("networks: preparing")
	if err := b.open(ctx); err != nil {
		return r, err
	}
	if err := b.enter(ctx); err != nil {
		return r, err
	}
	say.Say("networks: streams and requests of %d systems", len(b.systems))
	if err := b.speeds(ctx, &r); err != nil {
		return r, err
	}
	if err := b.leave(); err != nil {
		return r, err
	}
	say.Say("networks: %d rounds of creation", opts.Rounds)
	if r.Create, err = b.creation(ctx); err != nil {
		return r, err
	}
	say.Say("networks: %d idle sandboxes", opts.Idle)
	if err := b.idle(ctx, &r); err != nil {
		return r, err
	}
	r.complete()
	return r, nil
}

func (b *bench) close() (err error) {
	err = b.leave()
	for i := len(b.undo) - 1; i >= 0; i-- {
		err = errors.Join(err, b.undo[i]())
	}
	return err
}

// open makes the place, the client and the server.
func (b *bench) open(ctx context.Context) (err error) {
	if b.dir, err = os.MkdirTemp("", "aether-lab-"); err != nil {
		return err
	}
	b.undo = append(b.undo, func() error { return os.RemoveAll(b.dir) })
	// Ids of sandboxes have to reach what is in it.
	if err := os.Chmod(b.dir, 0o755); err != nil {
		return err
	}
	if b.program, err = buildClient(ctx, b.dir); err != nil {
		return err
	}
	if b.host, err = newHost(); err != nil {
		return err
	}
	b.undo = append(b.undo, func() error { b.host.thread.Close(); return nil })
	address, err := hostAddress()
	if err != nil {
		return err
	}
	at, stop, err := b.host.serve(b.program, net.JoinHostPort(address, "0"))
	if err != nil {
		return err
	}
	b.server = at
	b.undo = append(b.undo, stop)
	return nil
}

// hostAddress is one of this host that is not its loopback's: of that every sandbox has
// one of its own.
func hostAddress() (string, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String(), nil
		}
	}
	return "", &sandbox.Error{Class: sandbox.Unavailable, Reason: "this host has no address of version 4 but that of its loopback"}
}

// enter starts the client in every system. One that does not run here is left out, but
// for our own.
func (b *bench) enter(ctx context.Context) error {
	for _, s := range []struct {
		name  string
		start func(context.Context) (*client, error)
	}{{rowCell, b.inCell}, {rowPasta, b.inPasta()}, {rowSlirp, b.inSlirp()}, {rowDocker, b.inDocker}, {rowVeth, b.overVeth}} {
		c, err := s.start(ctx)
		if err == nil {
			if err = c.ready(); err != nil {
				err = errors.Join(err, c.stop())
			}
		}
		if err != nil && s.name == rowCell {
			return err
		}
		if err != nil {
			c = nil
		}
		b.systems = append(b.systems, &system{s.name, c, err})
	}
	return nil
}

// leave ends the clients and what they are in.
func (b *bench) leave() (err error) {
	for _, s := range b.systems {
		if s.client != nil {
			err = errors.Join(err, s.client.stop())
		}
	}
	b.systems = nil
	return err
}

// speeds measures everything that a client does.
func (b *bench) speeds(ctx context.Context, r *Report) (err error) {
	const gigabit = 1e9 / 8
	streams := b.rounds
	streams.Count = min(b.rounds.Count, streamRounds)
	for _, m := range []struct {
		what   string
		during time.Duration
		unit   float64
		rates  *[]Rate
	}{{"send", streamTime, gigabit, &r.Send}, {"receive", streamTime, gigabit, &r.Receive}, {"requests", requestTime, 1, &r.Requests}} {
		rows, err := b.rows(ctx, streams, m.what, m.during, m.unit)
		if err != nil {
			return err
		}
		*m.rates = rates(rows)
	}
	r.Connect, err = b.rows(ctx, b.rounds, "connect", 0, 1)
	return err
}

// rows measures all systems, but for those that fail.
func (b *bench) rows(ctx context.Context, rounds lab.Rounds, what string, during time.Duration, unit float64) ([]lab.Row, error) {
	rows, err := rounds.Rows(ctx, b.contenders(what, during, unit))
	if err != nil {
		return nil, err
	}
	for i, s := range b.systems {
		if s.skipped != nil {
			rows[i] = lab.Row{Name: s.name, Skipped: s.skipped.Error()}
		}
	}
	return rows, nil
}

func (b *bench) contenders(what string, during time.Duration, unit float64) []lab.Contender {
	list := make([]lab.Contender, len(b.systems))
	for i, s := range b.systems {
		if s.skipped != nil {
			list[i] = lab.Skip(s.name, s.skipped)
			continue
		}
		list[i] = lab.Contender{Name: s.name, Take: func(context.Context) (lab.Sample, error) { return s.ask(what, during, unit) }}
	}
	return list
}
