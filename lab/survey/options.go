package survey

import (
	"time"

	"aether/lab"
	"aether/lab/control"
	"aether/lab/density"
	"aether/lab/snapshot"
	"aether/lab/start"
	"aether/profile"
)

// Options say how a survey goes about it. The zero value works.
type Options struct {
	// Dir is where snapshots and engines keep their things meanwhile; empty means that of
	// temporary files.
	Dir      string
	Progress *lab.Progress
}

// amount is how much is measured.
type amount struct {
	start    start.Options
	density  density.Options
	snapshot snapshot.Options
	control  control.Options
	// trial is how long the first sandbox of a system may take, with what is prepared for
	// all of them.
	trial time.Duration
	// look is how long the host is looked at while the lab does nothing.
	look time.Duration
	// until is how long after the beginning an axis may still be measured, so that a slow
	// system on one of them leaves time for the others; nil is no limit.
	until map[profile.Axis]time.Duration
}

// quick gives a first picture in less than three minutes. A machine that is emulated boots
// for two or three seconds: what has to be prepared, and a whole axis of one system, has
// time for a few of those.
var quick = amount{
	start:    start.Options{Rounds: 12, Crowds: 1, Budget: 900 * time.Millisecond, Prepare: 8 * time.Second, Patience: 15 * time.Second},
	density:  density.Options{Levels: []int{64}, Rounds: 1, Grow: 1200 * time.Millisecond, Settle: 900 * time.Millisecond, Idle: time.Second},
	snapshot: snapshot.Options{Sizes: []int{64}, Copies: []int{1, 4}, Rounds: 3, Budget: 20 * time.Second},
	control:  control.Options{Budget: 20 * time.Second},
	trial:    20 * time.Second,
	look:     300 * time.Millisecond,
	until: map[profile.Axis]time.Duration{profile.AgentControl: 35 * time.Second, profile.Isolation: 50 * time.Second,
		profile.StartLatency: 100 * time.Second, profile.Density: 135 * time.Second, profile.Snapshotting: 166 * time.Second},
}

// whole takes some twenty minutes on two quiet cores with nine systems of which one is an
// emulated machine: five for starts, eight for density, six for copies.
var whole = amount{
	start:    start.Options{Rounds: 50, Crowds: 5, Budget: 20 * time.Second, Prepare: time.Minute, Patience: time.Minute},
	density:  density.Options{Levels: []int{1, 10, 100, 500}, Rounds: 3, Grow: 15 * time.Second, Settle: 3 * time.Second, Idle: 2 * time.Second},
	snapshot: snapshot.Options{Sizes: []int{64, 16, 256}, Copies: []int{1, 10, 100}, Rounds: 10, Budget: 2 * time.Minute},
	control:  control.Options{Budget: 2 * time.Minute},
	trial:    5 * time.Minute,
	look:     time.Second,
}
