package checkpoint

import (
	"fmt"
	"strconv"
	"strings"
)

// posixTimer is one that a process made by timer_create.
type posixTimer struct {
	ID    int `json:"id"`
	Clock int `json:"clock"`
	// Notify and Signal are of its sigevent; Value is what comes with the signal.
	Notify int    `json:"notify"`
	Signal int    `json:"signal"`
	Value  uint64 `json:"value"`
	// Thread is the one that it signals, by its number in the cell, or 0.
	Thread int `json:"thread,omitempty"`
	// Spec is the kernel's struct itimerspec: how often, then how much is left.
	Spec [32]byte `json:"spec"`
}

// maxTimers bounds them, and their numbers, for those in between are made and
// ended to get to the next.
const maxTimers = 1024

// Ways to be notified, of sigevent.
const (
	notifySignal = 0
	notifyNone   = 1
	notifyThread = 4 // or together with one of the others
)

// parseTimers reads what the kernel calls timers: four lines of each.
func parseTimers(text string) (list []posixTimer, err error) {
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		value = strings.TrimSpace(value)
		if name == "ID" {
			list = append(list, posixTimer{})
		}
		if len(list) == 0 || len(list) > maxTimers {
			return nil, fmt.Errorf("checkpoint: %d timers, then %.40q", len(list), line)
		}
		if err := list[len(list)-1].parse(name, value); err != nil {
			return nil, fmt.Errorf("checkpoint: a timer has %.80q", line)
		}
	}
	return list, nil
}

func (t *posixTimer) parse(name, value string) (err error) {
	switch name {
	case "ID":
		t.ID, err = strconv.Atoi(value)
	case "signal": // 14/0000000000000000
		signal, data, _ := strings.Cut(value, "/")
		if t.Signal, err = strconv.Atoi(signal); err == nil {
			t.Value, err = strconv.ParseUint(strings.TrimPrefix(data, "0x"), 16, 64)
		}
	case "notify": // signal/pid.123
		way, whom, _ := strings.Cut(value, "/")
		ways := map[string]int{"signal": notifySignal, "none": notifyNone, "thread": notifySignal}
		var ok bool
		if t.Notify, ok = ways[way]; !ok {
			return strconv.ErrSyntax
		}
		if tid, found := strings.CutPrefix(whom, "tid."); found {
			t.Notify |= notifyThread
			t.Thread, err = strconv.Atoi(tid)
		}
	case "ClockID":
		t.Clock, err = strconv.Atoi(value)
	}
	return err
}
