//go:build linux

package guest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"aether/sandbox"

	pb "aether/guest/wire/process"
)

const (
	maxProcesses = 4096
	// A process that has ended can be connected to for a while, so that a client
	// that lost its connection learns how it ended.
	keepEnded = 30 * time.Second
	maxEnded  = 64
)

// table holds the processes that run and those that have just ended.
type table struct {
	mu      sync.Mutex
	running map[uint32]*process
	ended   []*process // the oldest first
	expiry  *time.Timer
	closed  bool
}

// add registers a process that has just been started.
func (t *table) add(p *process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = slices.DeleteFunc(t.ended, func(old *process) bool { return old.pid == p.pid || sameTag(old.tag, p.tag) })
	if t.running == nil {
		t.running = map[uint32]*process{}
	}
	t.running[p.pid] = p
}

func sameTag(a, b *string) bool { return a != nil && b != nil && *a == *b }

// room says whether one more may be started.
func (t *table) room() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return &sandbox.Error{Class: sandbox.NotFound, Reason: "the sandbox is ending"}
	case len(t.running) >= maxProcesses:
		return &sandbox.Error{Class: sandbox.Exhausted, Reason: fmt.Sprintf("%d commands are running already", len(t.running)), Retry: true}
	}
	return nil
}

// end moves a process to those that have ended.
func (t *table) end(p *process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running[p.pid] == p {
		delete(t.running, p.pid)
	}
	if t.closed {
		return
	}
	if len(t.ended) == 0 {
		t.expiry = time.AfterFunc(keepEnded, t.expire)
	}
	t.ended = append(t.ended, p)
	if len(t.ended) > maxEnded {
		t.ended = slices.Delete(t.ended, 0, len(t.ended)-maxEnded)
	}
}

func (t *table) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = slices.DeleteFunc(t.ended, func(p *process) bool { return time.Since(p.ended) >= keepEnded })
	if len(t.ended) > 0 {
		t.expiry = time.AfterFunc(keepEnded-time.Since(t.ended[0].ended), t.expire)
	} else {
		t.ended = nil
	}
}

// find finds a process that runs.
func (t *table) find(sel *pb.ProcessSelector) (*process, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.search(sel, false)
}

// findAny also finds one that has just ended.
func (t *table) findAny(sel *pb.ProcessSelector) (*process, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.search(sel, true)
}

func (t *table) search(sel *pb.ProcessSelector, ended bool) (*process, error) {
	match, gone, err := matcher(sel)
	if err != nil {
		return nil, err
	}
	for _, p := range t.running {
		if match(p) {
			return p, nil
		}
	}
	for _, p := range slices.Backward(t.ended) {
		if ended && match(p) {
			return p, nil
		}
	}
	return nil, gone
}

func matcher(sel *pb.ProcessSelector) (match func(*process) bool, gone, err error) {
	switch by := sel.GetSelector().(type) {
	case *pb.ProcessSelector_Pid:
		return func(p *process) bool { return p.pid == by.Pid }, processGone(by.Pid), nil
	case *pb.ProcessSelector_Tag:
		gone = &sandbox.Error{Class: sandbox.NotFound, Reason: fmt.Sprintf("no process with tag %q", clip(by.Tag))}
		return func(p *process) bool { return sameTag(p.tag, &by.Tag) }, gone, nil
	}
	return nil, nil, sandbox.Invalidf("process", "neither a pid nor a tag is given")
}

func processGone(pid uint32) error {
	return &sandbox.Error{Class: sandbox.NotFound, Reason: fmt.Sprintf("no process with pid %d", pid)}
}

// list describes those that run, in the order of their ids.
func (t *table) list() []*pb.ProcessInfo {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*pb.ProcessInfo
	for _, p := range t.running {
		all = append(all, &pb.ProcessInfo{Config: p.config, Pid: p.pid, Tag: p.tag})
	}
	slices.SortFunc(all, func(a, b *pb.ProcessInfo) int { return cmp.Compare(a.GetPid(), b.GetPid()) })
	return all
}

// close refuses new processes and answers those that have to end. It lets go of
// those that have: their timer would keep the whole service alive.
func (t *table) close() []*process {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed, t.ended = true, nil
	if t.expiry != nil {
		t.expiry.Stop()
	}
	return slices.Collect(maps.Values(t.running))
}
