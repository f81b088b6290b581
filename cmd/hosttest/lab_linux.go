package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"aether/internal/host/features"
	"aether/internal/host/storedir"
)

// emulatedPace is how much slower than real tests may take an emulated machine to
// be.
const emulatedPace = 10

// lab is one run of this program.
type lab struct {
	options
	dir      string // of what is only for this run
	progress io.Writer
	payloads map[string]payload // by architecture
}

func runHosts(ctx context.Context, o options, progress io.Writer) (results []result, err error) {
	if o.state, err = stateDir(o.state); err != nil {
		return nil, err
	}
	work := filepath.Join(o.state, "work")
	if err := os.MkdirAll(work, 0o700); err != nil {
		return nil, err
	}
	if _, err := storedir.ReapScratch(work); err != nil {
		return nil, err
	}
	dir, release, err := storedir.Scratch(ctx, work)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, release()) }()
	l := &lab{options: o, dir: dir, progress: progress, payloads: map[string]payload{}}
	for _, h := range o.hosts {
		results = append(results, l.runHost(ctx, h)...)
		if ctx.Err() != nil {
			return results, ctx.Err()
		}
	}
	return results, nil
}

func stateDir(named string) (string, error) {
	if named != "" {
		return filepath.Abs(named)
	}
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "aether-hosttest"), err
}

// runHost gives a result for everything that was asked of a host.
func (l *lab) runHost(ctx context.Context, h host) []result {
	jobs, results := plan(h, l.ways, l.steps)
	if len(jobs) == 0 {
		return results
	}
	found, err := l.try(ctx, h, jobs)
	if err != nil {
		l.say("%s: %v", h.name, err)
	}
	results = append(results, found...)
	results = append(results, missing(h.name, jobs, found, fmt.Sprint(err))...)
	inOrder(results)
	return results
}

// try boots the host. What it told before an error is worth having.
func (l *lab) try(ctx context.Context, h host, jobs []job) ([]result, error) {
	m, err := l.machine(ctx, h, jobs)
	if err != nil {
		return nil, err
	}
	log, err := logFile(l.state, h.name)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	found, err := l.boot(ctx, m, jobs, log)
	if err != nil {
		err = fmt.Errorf("%w (its console: %s)", err, log.Name())
	}
	return found, err
}

// machine has everything made that a host is booted from. Compilers and debootstrap
// wait for different things, so they work side by side.
func (l *lab) machine(ctx context.Context, h host, jobs []job) (machine, error) {
	m := machine{host: h, dir: l.dir, lab: filepath.Join(l.dir, h.name+".img"), kvm: h.root.arch == runtime.GOARCH && features.KVM(ctx) == nil,
		crowd: slices.Contains(l.steps, stepCrowd)}
	compiled := make(chan error, 1)
	go func() { compiled <- l.compile(ctx, h.root.arch) }()
	cache := rootCache{dir: filepath.Join(l.state, "roots"), progress: l.progress}
	entry, err := cache.ensure(ctx, h.root)
	if err := errors.Join(err, <-compiled); err != nil {
		return m, err
	}
	m.entry = entry
	c := config{Host: h.name, Jobs: jobs, Pace: emulatedPace, Profile: h.profile}
	if m.kvm {
		c.Pace = 1
	}
	return m, l.payloads[h.root.arch].disk(ctx, c, m.lab)
}

// compile makes the payload, once for each architecture.
func (l *lab) compile(ctx context.Context, arch string) error {
	if _, ok := l.payloads[arch]; ok {
		return nil
	}
	began := time.Now()
	p := payload{dir: filepath.Join(l.dir, "payload-"+arch), arch: arch}
	if err := p.build(ctx, l.steps); err != nil {
		return err
	}
	l.say("built the programs for %s: %.0f s", arch, time.Since(began).Seconds())
	l.payloads[arch] = p
	return nil
}

func (l *lab) boot(ctx context.Context, m machine, jobs []job, log io.Writer) ([]result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.limit, fmt.Errorf("it took longer than %v", l.limit))
	defer cancel()
	l.say("%s: boot, emulated: %v", m.name, !m.kvm)
	if l.verbose {
		log = io.MultiWriter(log, l.progress)
	}
	began := time.Now()
	results, err := m.run(ctx, console{log: log, jobs: jobs, host: m.name, arrived: func(r result) {
		l.say("%s: %s, %s: %s (%.0f s, %.0f s since the boot)", m.name, r.Way, r.Step, r.Verdict, r.Seconds, time.Since(began).Seconds())
	}})
	return results, errors.Join(err, os.Remove(m.lab))
}

func (l *lab) say(format string, args ...any) {
	fmt.Fprintf(l.progress, "hosttest: "+format+"\n", args...)
}
