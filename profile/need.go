package profile

import (
	"strconv"
	"strings"

	"aether/sandbox"
)

// Op is how a Need compares.
type Op string

// The comparisons.
const (
	AtLeast  Op = ">="
	MoreThan Op = ">"
	AtMost   Op = "<="
	LessThan Op = "<"
	Equal    Op = "="
)

// Need is a condition on a profile, as "isolation>=0.8".
type Need struct {
	Measure Measure
	Op      Op
	Value   float64
}

// ParseNeed reads a measure, a comparison and a number from 0 to 1. Errors:
// Invalid, naming what is at fault.
func ParseNeed(s string) (Need, error) {
	at := strings.IndexAny(s, "<>=")
	if at < 0 {
		return Need{}, needError("%.60q compares nothing", s)
	}
	measure, err := ParseMeasure(strings.TrimSpace(s[:at]))
	if err != nil {
		return Need{}, &sandbox.Error{Class: sandbox.Invalid, Field: "need", Err: err}
	}
	op, rest := cutOp(s[at:])
	value, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
	// Written so that NaN fails too.
	if err != nil || !(value >= 0 && value <= 1) {
		return Need{}, needError("%.60q in %.60q is not a number from 0 to 1", rest, s)
	}
	return Need{measure, op, value}, nil
}

// cutOp splits off the longest comparison that s begins with.
func cutOp(s string) (Op, string) {
	for _, op := range []Op{AtLeast, AtMost} {
		if rest, ok := strings.CutPrefix(s, string(op)); ok {
			return op, rest
		}
	}
	return Op(s[:1]), s[1:]
}

func needError(format string, args ...any) *sandbox.Error {
	err := sandbox.Invalidf("need", format, args...)
	// A shell takes an unquoted > for itself.
	err.Remedy = "as 'isolation>=0.8', quoted, with one of >= > <= < ="
	return err
}

// Met says whether a profile satisfies the need.
func (n Need) Met(p Profile) bool {
	v := n.Measure.of(p)
	switch n.Op {
	case AtLeast:
		return v >= n.Value
	case MoreThan:
		return v > n.Value
	case AtMost:
		return v <= n.Value
	case LessThan:
		return v < n.Value
	default:
		return v == n.Value
	}
}

// Meeting keeps the profiles that satisfy every need, in their order.
func Meeting(needs []Need, profiles []Profile) []Profile {
	kept := []Profile{}
	for _, p := range profiles {
		if p.meets(needs) {
			kept = append(kept, p)
		}
	}
	return kept
}

func (p Profile) meets(needs []Need) bool {
	for _, n := range needs {
		if !n.Met(p) {
			return false
		}
	}
	return true
}
