package lab

import "time"

// Sample is one measured turn of a contender.
type Sample struct {
	// First is the time from the call to what is waited for: the first byte of a
	// program's output, an answer, an end.
	First time.Duration
	// Laps say where the time went, as far as it is known.
	Laps []Lap
	// Pause is how long a source stood still; zero if nobody says.
	Pause time.Duration
}

// Lap is a named part of the time.
type Lap struct {
	Name  string
	Took  time.Duration
	After bool // it came after what counts
}

// Watch cuts a span of time into laps.
type Watch struct {
	Sample      Sample
	start, last time.Time
}

// StartWatch begins the first lap.
func StartWatch() *Watch {
	now := time.Now()
	return &Watch{start: now, last: now}
}

// Lap ends a lap and begins the next.
func (w *Watch) Lap(name string) {
	now := time.Now()
	w.Sample.Laps = append(w.Sample.Laps, Lap{name, now.Sub(w.last), w.Sample.First > 0})
	w.last = now
}

// First ends the lap that ends what counts: what comes later is not part of it.
func (w *Watch) First(name string) {
	w.Lap(name)
	w.Sample.First = w.last.Sub(w.start)
}

// Done is the sample of a turn of which all laps count.
func (w *Watch) Done() Sample {
	w.Sample.First = w.last.Sub(w.start)
	return w.Sample
}
