package lab

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Unit is what a part is counted in. It is also the name of its field in JSON.
type Unit string

// Units of parts. Unlike medians, means add up.
const (
	MedianUS Unit = "median_us"
	MeanUS   Unit = "mean_us"
	KiB      Unit = "kib"
)

// short is the unit as people read it.
func (u Unit) short() string {
	if u == KiB {
		return "KiB"
	}
	return "us"
}

// Part is a share of a figure.
type Part struct {
	Name  string
	Value float64
	Unit  Unit
}

// MarshalJSON implements json.Marshaler.
func (p Part) MarshalJSON() ([]byte, error) {
	name, err := json.Marshal(p.Name)
	if err != nil {
		return nil, err
	}
	value, err := json.Marshal(p.Value)
	return fmt.Appendf(nil, `{"name":%s,%q:%s}`, name, string(p.Unit), value), err
}

// Means are the average parts of samples, with what came after the first byte.
func Means(samples []Sample) []Part { return partsOf(combine(samples, Mean), MeanUS, true) }

// partsOf are the laps up to the first byte, or all of them.
func partsOf(laps []Lap, unit Unit, all bool) []Part {
	var parts []Part
	for _, l := range laps {
		if all || !l.After {
			parts = append(parts, Part{l.Name, Micros(l.Took), unit})
		}
	}
	return parts
}

func partsText(parts []Part) string {
	list := make([]string, len(parts))
	for i, p := range parts {
		list[i] = fmt.Sprintf("%s %.0f", p.Name, p.Value)
	}
	return strings.Join(list, ", ") + " (" + parts[0].Unit.short() + ")"
}

// Dearest is a line of what a figure is spent on, or nothing.
func Dearest(parts []Part) string {
	if len(parts) == 0 {
		return ""
	}
	return "  most of it on " + partsText(parts) + "\n"
}
