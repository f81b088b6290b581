package lab

import (
	"slices"
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for _, test := range []struct {
		list []time.Duration
		q    float64
		want time.Duration
	}{
		{hundred, 0.5, 50}, {hundred, 0.99, 99}, {hundred, 1, 100}, {hundred, 0, 1},
		{hundred[:1], 0.99, 1}, {hundred[:3], 0.5, 2}, {hundred[:10], 0.99, 10},
	} {
		if got := Quantile(test.list, test.q); got != test.want {
			t.Errorf("%v of %d: got %d, want %d", test.q, len(test.list), got, test.want)
		}
	}
}

func TestLaps(t *testing.T) {
	samples := []Sample{
		{First: 30, Laps: []Lap{{"a", 10, false}, {"b", 20, false}, {"c", 3, true}}},
		{First: 12, Laps: []Lap{{"a", 4, false}, {"b", 8, false}, {"c", 3, true}}},
		{First: 99, Laps: []Lap{{"a", 40, false}, {"b", 59, false}, {"c", 9, true}}},
	}
	for _, test := range []struct {
		name string
		laps []Lap
		want []time.Duration
	}{
		{"typical", combine(samples, Median[time.Duration]), []time.Duration{10, 20, 3}},
		{"mean", combine(samples, Mean), []time.Duration{18, 29, 5}},
		{"tail", tail(samples), []time.Duration{40, 59, 9}},
	} {
		var got []time.Duration
		for _, l := range test.laps {
			got = append(got, l.Took)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
	if got := partsOf(combine(samples, Median[time.Duration]), MedianUS, false); len(got) != 2 {
		t.Errorf("what came after the first byte is part of it: %v", got)
	}
}

func TestWatch(t *testing.T) {
	w := StartWatch()
	w.Lap("a")
	time.Sleep(2 * time.Millisecond)
	w.First("b")
	w.Lap("c")
	var before time.Duration
	for _, l := range w.Sample.Laps {
		if !l.After {
			before += l.Took
		}
	}
	if before != w.Sample.First || w.Sample.First < 2*time.Millisecond {
		t.Errorf("laps of %v do not make the first byte at %v", before, w.Sample.First)
	}
}
