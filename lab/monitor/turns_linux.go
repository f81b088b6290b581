package monitor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"aether/guest"
	"aether/lab"
	"aether/sandbox"
)

// lapFrozen is for how long the processors of a source stood still. It is no part of a time
// that counts.
const lapFrozen = "processors stood still"

// prepare makes a machine that is copied, and a snapshot of it.
func (b *bench) prepare(ctx context.Context, s *side) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	made, err := s.Driver.Create(ctx, s.opts.spec())
	if err != nil {
		return err
	}
	b.undo = append(b.undo, func() error { return made.Destroy(context.Background()) })
	var copied, restores bool
	s.source, copied = made.(source)
	if s.restorer, restores = s.Driver.(sandbox.Restorer); !copied || !restores {
		return errors.New("its machines cannot be copied in every way")
	}
	if _, err := run(ctx, s.source, nil, aFile); err != nil {
		return err
	}
	if s.saved, err = os.MkdirTemp(s.opts.Dir, "monitor-"); err != nil {
		return err
	}
	b.undo = append(b.undo, func() error { return os.RemoveAll(s.saved) })
	return s.source.Snapshot(ctx, s.saved, sandbox.Checkpoint)
}

func (o Options) spec() sandbox.Spec {
	return sandbox.Spec{Image: o.Image, Limits: sandbox.Limits{MemoryBytes: o.MemoryBytes}}
}

// output keeps what a command says, and calls its function at the first byte.
type output struct {
	text  bytes.Buffer
	first func()
}

// maxText is far above what commands have to say; what is inside is not trusted.
const maxText = 64 << 10

func (o *output) Write(p []byte) (int, error) {
	if o.first != nil {
		o.first()
		o.first = nil
	}
	if o.text.Len()+len(p) > maxText {
		return 0, errors.New("the command says too much")
	}
	return o.text.Write(p)
}

// run has a command of a machine say what is in files, and calls a function, if there is one,
// at the first byte.
func run(ctx context.Context, in sandbox.Instance, first func(), files ...string) (string, error) {
	client := guest.ClientFor(in, guest.ClientOptions{})
	defer client.Close()
	out := output{first: first}
	running, err := client.Start(ctx, guest.Cmd{Path: "/bin/cat", Args: files, Stdout: &out})
	if err != nil {
		return "", err
	}
	status, err := running.Wait()
	if err == nil && (status.Code != 0 || out.text.Len() == 0) {
		err = fmt.Errorf("the command ended with %+v", status)
	}
	return out.text.String(), err
}

// aFile is in every machine.
const aFile = "/proc/uptime"

// reply has the guest service answer.
func reply(ctx context.Context, in sandbox.Instance) error {
	client := guest.ClientFor(in, guest.ClientOptions{})
	defer client.Close()
	_, err := client.Stat(ctx, aFile)
	return err
}

func (s *side) create(ctx context.Context) (lab.Sample, error) {
	w := lab.StartWatch()
	made, err := s.Driver.Create(ctx, s.opts.spec())
	if err != nil {
		return lab.Sample{}, err
	}
	w.Lap("create")
	_, err = run(ctx, made, func() { w.First("first byte") }, aFile)
	return w.Sample, errors.Join(err, made.Destroy(context.WithoutCancel(ctx)))
}

func (s *side) fork(ctx context.Context) (lab.Sample, error) {
	w := lab.StartWatch()
	made, err := s.source.Fork(ctx, make([]sandbox.Spec, 1))
	if err != nil {
		return lab.Sample{}, err
	}
	w.Lap("fork")
	sample, err := s.answer(ctx, w, made[0])
	sample.Pause = s.source.LastForkPause()
	sample.Laps = append(sample.Laps, lab.Lap{Name: lapFrozen, Took: s.source.LastForkFreeze(), After: true})
	return sample, err
}

func (s *side) load(ctx context.Context) (lab.Sample, error) {
	w := lab.StartWatch()
	made, err := s.restorer.Restore(ctx, s.saved, sandbox.Checkpoint, sandbox.Spec{})
	if err != nil {
		return lab.Sample{}, err
	}
	w.Lap("load")
	return s.answer(ctx, w, made)
}

// answer has a copy answer, and removes it.
func (s *side) answer(ctx context.Context, w *lab.Watch, made sandbox.Instance) (lab.Sample, error) {
	err := reply(ctx, made)
	w.First("reply")
	return w.Sample, errors.Join(err, made.Destroy(context.WithoutCancel(ctx)))
}

func (s *side) snapshot(ctx context.Context) (_ lab.Sample, err error) {
	dir, err := os.MkdirTemp(s.opts.Dir, "monitor-")
	if err != nil {
		return lab.Sample{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	w := lab.StartWatch()
	err = s.source.Snapshot(ctx, dir, sandbox.Checkpoint)
	w.Lap("snapshot")
	return w.Done(), err
}
