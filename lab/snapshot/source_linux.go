package snapshot

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"aether/lab/conversation"
	"aether/sandbox"
)

// source is a sandbox with the program in it that is copied.
type source struct {
	driver   sandbox.Driver
	instance sandbox.Instance
	dir      string
	mib      int
	word     string
	program  *conversation.Conversation
	pinged   int64 // the count at the last look
	// refused is why a source with sockets cannot be copied, so that this one has none.
	refused error
}

// newSource starts the program, with sockets of a kind.
func newSource(ctx context.Context, d sandbox.Driver, dir string, mib int, kind string) (_ *source, err error) {
	s := &source{driver: d, dir: dir, mib: mib, word: fmt.Sprintf("w%016x", rand.Uint64())}
	if s.instance, err = d.Create(ctx, sandbox.Spec{}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.program, err = conversation.Start(ctx, s.instance, "python3", "-c", program, fmt.Sprint(mib), kind); err != nil {
		return nil, err
	}
	_, err = s.look(ctx)
	return s, err
}

// look asks the source what it has.
func (s *source) look(ctx context.Context) (state, error) {
	answer, err := s.program.Ask(ctx, s.word)
	if err != nil {
		return state{}, fmt.Errorf("the program in the source: %w", err)
	}
	now, err := parseState(answer, s.word)
	s.pinged = now.Count
	return now, err
}

func (s *source) close() (err error) {
	if s.program != nil {
		err = s.program.Close()
	}
	return errors.Join(err, s.instance.Destroy(context.Background()))
}

// watched does something while the source is asked again and again, and gives how long it
// stood still: by what the driver says of a fork, or by the longest wait for an answer.
func (s *source) watched(ctx context.Context, do func() error) (still time.Duration, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan struct{})
	var pinging error
	go func() {
		defer close(ended)
		for ctx.Err() == nil && pinging == nil {
			start := time.Now()
			var answer string
			// The wait for an answer is not given up with the watching: it ends when the
			// source goes on.
			if answer, pinging = s.program.Ask(context.WithoutCancel(ctx), ping); answer != pong && pinging == nil {
				pinging = fmt.Errorf("%.80q is no answer to a ping", answer)
			}
			still = max(still, time.Since(start))
			time.Sleep(200 * time.Microsecond)
		}
	}()
	err = do()
	stop()
	select {
	case <-ended:
	case <-time.After(patience):
		// Nobody answers any more: the conversation is over.
		err = errors.Join(err, errors.New("the source does not answer after it was copied"), s.program.Close())
		<-ended
		s.program = nil
	}
	if err == nil {
		err = pinging
	}
	return still, err
}

// patience is how long a source may stand still after it was copied.
const patience = 20 * time.Second

// newDir is an empty directory for a snapshot.
func (s *source) newDir() (string, error) { return os.MkdirTemp(s.dir, "lab-snapshot-") }
