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

	driver   sandbox.Driver
	instance sandbox.Instance
	client   *guest.Client
	created  time.Time
}

func newSession(f *runFlags, cmd *cobra.Command) *session {
	return &session{foreground: foreground{joined: &f.streamFlags, cmd: cmd}, start: time.Now()}
}

func (s *session) run(list engine.Candidates, spec sandbox.Spec, args []string) (err error) {
	ctx, release := s.takeSignals(s.cmd.Context())
	defer release()
	watched, drawn := showProgress(ctx, s.cmd, s.joined.json)
	made, err := list.Create(watched, spec)
	drawn()
	if err != nil {
		return asFlag(err)
	}
	s.driver, s.instance = made.Driver, made.Instance
	s.created = time.Now()
	defer func() { err = errors.Join(err, s.destroy()) }()
	s.client = clientOf(s.instance)
	s.end = func() { _ = s.destroy() } // which is tried again at the end
	return s.finish(s.foreground.run(ctx, s.command(args), s.begin))
}

func (s *session) destroy() error {
	return s.instance.Destroy(context.WithoutCancel(s.cmd.Context()))
}

// finish prints what there is to say of the end and chooses the exit status.
func (s *session) finish(status guest.Status, err error) error {
	ended := time.Now()
	code, timeout, err := outcomeOf(status, err)
	switch {
	case err != nil:
		return err
	case s.joined.json:
		return s.print(status, code, timeout, ended)
	case code == 0:
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
