package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/guest"
	"aether/sandbox"
)

// session is one command in one sandbox, from its making to its removal.
type session struct {
	foreground
	start time.Time
	ask   bool // what the network denied is told afterwards
	ports []forward

	driver   sandbox.Driver
	instance sandbox.Instance
	client   *guest.Client
	created  time.Time
}

func newSession(f *runFlags, cmd *cobra.Command) *session {
	return &session{foreground: foreground{joined: &f.streamFlags, cmd: cmd}, start: time.Now(), ask: f.net == askMode, ports: f.forwards}
}

func (s *session) run(list engine.Candidates, spec sandbox.Spec, args []string) (err error) {
	ctx, release := s.takeSignals(s.cmd.Context())
	defer release()
	watched, drawn := showProgress(ctx, s.cmd, s.joined.json)
	made, err := list.Create(sandbox.WithSecrets(watched, ownSecrets), spec)
	drawn()
	if err != nil {
		return asFlag(err)
	}
	s.driver, s.instance = made.Driver, made.Instance
	s.created = time.Now()
	defer func() { err = errors.Join(err, s.destroy()) }()
	if err := s.canAsk(); err != nil {
		return err
	}
	s.client = clientOf(s.instance)
	published, err := s.publish()
	if err != nil {
		return err
	}
	defer published()
	s.end = func() { _ = s.destroy() } // which is tried again at the end
	return s.finish(s.foreground.run(ctx, s.command(args), s.begin))
}

// publish has this host reach the ports that were asked for, until it is called off.
func (s *session) publish() (off func(), err error) {
	if len(s.ports) == 0 {
		return func() {}, nil
	}
	f, err := startForwards(s.cmd, s.client.DialPort, s.ports)
	if err != nil {
		return nil, err
	}
	for _, one := range s.ports {
		printError(s.cmd, "aether: %s -> %d", one.Local, one.Port)
	}
	return f.Close, nil
}

func (s *session) destroy() error {
	return s.instance.Destroy(context.WithoutCancel(s.cmd.Context()))
}

// finish prints what there is to say of the end and chooses the exit status.
func (s *session) finish(status guest.Status, err error) error {
	ended := time.Now()
	code, timeout, err := outcomeOf(status, err)
	if err != nil {
		return err
	}
	denied, missed, err := s.asked()
	if err != nil {
		return err
	}
	if s.joined.json {
		return s.print(runResult{Denied: denied, DenialsMissed: missed}, status, code, timeout, ended)
	}
	s.tellDenied(denied, missed)
	if code == 0 {
		return nil
	}
	return errors.Join(s.explainEnd(timeout), exitCode(code))
}

// limitFlags is what to raise when a limit was reached.
var limitFlags = map[string]string{"memory": "--memory", "processes": "--pids", "disk": "--disk"}

// explainEnd says what the exit status of a failure alone does not.
func (s *session) explainEnd(timeout bool) error {
	if timeout {
		s.explainTimeout()
	}
	stats, err := s.instance.Stats(s.cmd.Context())
	if err != nil {
		return err
	}
	for _, limit := range stats.Reached() {
		printError(s.cmd, "aether: the sandbox reached its %s limit (%s)", limit, limitFlags[limit])
	}
	return nil
}
