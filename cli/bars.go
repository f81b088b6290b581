package cli

import (
	"math"
	"strings"
)

var eighths = [...]string{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"}

// bar draws a value from 0 to 1 over width columns, to an eighth of a column and
// without the empty rest.
func bar(value float64, width int) string {
	n := int(math.Round(min(max(value, 0), 1) * float64(width) * 8))
	return strings.Repeat("█", n/8) + eighths[n%8]
}

// barStyle tells good from middling from poor at a glance.
func barStyle(value float64) style {
	switch {
	case value >= 0.8:
		return green
	case value >= 0.5:
		return yellow
	}
	return red
}

// deltaStyle tells better from worse.
func deltaStyle(signed string) style {
	switch {
	case strings.Trim(signed, "+-0.") == "":
		return dim
	case strings.HasPrefix(signed, "-"):
		return red
	}
	return green
}
