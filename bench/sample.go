package main

import (
	"math"
	"slices"
	"time"
)

// sample is one measured start of a program.
type sample struct {
	// first is the time from the call to the first byte of output.
	first time.Duration
	// laps say where the time went, for systems that are made in this program.
	laps []lap
}

// lap is a named part of the time.
type lap struct {
	name  string
	took  time.Duration
	after bool // it came after the first byte
}

// watch cuts a span of time into laps.
type watch struct {
	start, last time.Time
	sample      sample
}

func startWatch() *watch {
	now := time.Now()
	return &watch{start: now, last: now}
}

func (w *watch) lap(name string) {
	now := time.Now()
	w.sample.laps = append(w.sample.laps, lap{name, now.Sub(w.last), w.sample.first > 0})
	w.last = now
}

// firstByte ends the part of the time that counts as the start.
func (w *watch) firstByte(name string) {
	w.lap(name)
	w.sample.first = w.last.Sub(w.start)
}

// quantile is the nearest-rank one: a value that was really measured.
func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[rank(len(sorted), q)]
}

func rank(n int, q float64) int {
	return max(0, int(math.Ceil(q*float64(n)))-1)
}

func firsts(samples []sample) []time.Duration {
	list := make([]time.Duration, len(samples))
	for i, s := range samples {
		list[i] = s.first
	}
	slices.Sort(list)
	return list
}

// typicalLaps are the medians of each lap.
func typicalLaps(samples []sample) []lap {
	return combineLaps(samples, func(list []time.Duration) time.Duration {
		slices.Sort(list)
		return quantile(list, 0.5)
	})
}

// meanLaps are the means of each lap; unlike medians they add up.
func meanLaps(samples []sample) []lap {
	return combineLaps(samples, func(list []time.Duration) time.Duration {
		var sum time.Duration
		for _, d := range list {
			sum += d
		}
		return sum / time.Duration(len(list))
	})
}

func combineLaps(samples []sample, combine func([]time.Duration) time.Duration) []lap {
	var order []lap
	took := map[string][]time.Duration{}
	for _, s := range samples {
		for _, l := range s.laps {
			if took[l.name] == nil {
				order = append(order, l)
			}
			took[l.name] = append(took[l.name], l.took)
		}
	}
	for i := range order {
		order[i].took = combine(took[order[i].name])
	}
	return order
}

// tailLaps are those of the very sample that is the p99.
func tailLaps(samples []sample) []lap {
	sorted := slices.SortedFunc(slices.Values(samples), func(a, b sample) int { return int(a.first - b.first) })
	return sorted[rank(len(sorted), 0.99)].laps
}
