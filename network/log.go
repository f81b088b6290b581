package network

import (
	"container/list"
	"slices"
	"sync"
	"time"

	"aether/sandbox"
)

const (
	// maxKept is how many different decisions are remembered of a sandbox.
	maxKept = 512
	// maxWords bounds the texts of one: who tells them reads hostile bytes.
	maxWords = 512
)

// decisionLog has the last different decisions about one sandbox, with how often each was
// made: one that does the same again and again takes no room for it.
type decisionLog struct {
	mu     sync.Mutex
	same   map[sandbox.NetworkDecision]*list.Element // by what identity gives
	recent *list.List                                // of *sandbox.NetworkDecision; the first is the oldest
	missed int64
}

func newDecisionLog() *decisionLog {
	return &decisionLog{same: map[sandbox.NetworkDecision]*list.Element{}, recent: list.New()}
}

// identity is what two decisions that are the same have in common.
func identity(d sandbox.NetworkDecision) sandbox.NetworkDecision {
	d.Time, d.Sent, d.Received, d.Count = time.Time{}, 0, 0, 0
	return d
}

// believable says whether a decision can have been made.
func believable(d sandbox.NetworkDecision) bool {
	if name, err := sandbox.ParseHostName(d.Name); d.Name != "" && (err != nil || name != d.Name) {
		return false
	}
	verdicts := []string{sandbox.VerdictAllowed, sandbox.VerdictDenied, sandbox.VerdictFailed}
	return slices.Contains(verdicts, d.Verdict) && len(d.Kind)+len(d.Rule)+len(d.Reason) <= maxWords && d.Address.Zone() == ""
}

func (l *decisionLog) add(d sandbox.NetworkDecision) {
	if !believable(d) {
		l.miss(1)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	key := identity(d)
	e := l.same[key]
	if e == nil {
		l.makeRoom()
		kept := key
		e = l.recent.PushBack(&kept)
		l.same[key] = e
	}
	l.recent.MoveToBack(e)
	kept := e.Value.(*sandbox.NetworkDecision)
	kept.Time = d.Time
	kept.Count++
	kept.Sent += d.Sent
	kept.Received += d.Received
}

func (l *decisionLog) makeRoom() {
	if l.recent.Len() < maxKept {
		return
	}
	oldest := l.recent.Remove(l.recent.Front()).(*sandbox.NetworkDecision)
	delete(l.same, identity(*oldest))
	l.missed += oldest.Count
}

// miss counts decisions that are not remembered.
func (l *decisionLog) miss(count int64) {
	l.mu.Lock()
	l.missed += max(0, count)
	l.mu.Unlock()
}

func (l *decisionLog) list() (all []sandbox.NetworkDecision, missed int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e := l.recent.Front(); e != nil; e = e.Next() {
		all = append(all, *e.Value.(*sandbox.NetworkDecision))
	}
	return all, l.missed
}
