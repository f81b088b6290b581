package lab

import (
	"fmt"
	"strings"
)

// Verdict is one target and whether it was met. A missed target is a result and no
// failure.
type Verdict struct {
	Target string `json:"target"`
	Unit   string `json:"unit"`
	// Value is absent if the target could not be judged; Open says why.
	Value float64 `json:"value,omitempty"`
	Limit float64 `json:"limit"`
	Met   bool    `json:"met"`
	Open  string  `json:"open,omitempty"`
	// MissedBy is the share of the limit by which it was missed.
	MissedBy float64 `json:"missed_by,omitempty"`
	// SpentOn is where the figure of a missed target comes from.
	SpentOn []Part `json:"spent_on,omitempty"`
}

// AtMost is the verdict on a figure that must not be above the limit.
func AtMost(target, unit string, value, limit float64, parts []Part) Verdict {
	return judge(Verdict{Target: target, Unit: unit, Value: value, Limit: limit, MissedBy: value/limit - 1}, parts)
}

// AtLeast is the verdict on a figure that must not be below the limit.
func AtLeast(target, unit string, value, limit float64, parts []Part) Verdict {
	return judge(Verdict{Target: target, Unit: unit, Value: value, Limit: limit, MissedBy: 1 - value/limit}, parts)
}

// Undecided is the verdict where there is no figure to judge.
func Undecided(target, unit string, limit float64, why string) Verdict {
	return Verdict{Target: target, Unit: unit, Limit: limit, Open: why}
}

// judge completes a verdict: a miss is explained, a figure that is not there is no
// success.
func judge(v Verdict, parts []Part) Verdict {
	switch {
	case v.Value == 0:
		return Undecided(v.Target, v.Unit, v.Limit, "a figure that it needs was not measured")
	case v.MissedBy <= 0:
		v.Met, v.MissedBy = true, 0
	default:
		v.SpentOn = parts
	}
	return v
}

// Text is a line, or two for a target that was missed.
func (v Verdict) Text() string {
	if v.Open != "" {
		return fmt.Sprintf("  open    %s, %s: %s\n", v.Target, v.Unit, v.Open)
	}
	figure := fmt.Sprintf("%s: %.4g %s, target %.4g", v.Target, v.Value, v.Unit, v.Limit)
	if v.Met {
		return "  met     " + figure + "\n"
	}
	text := fmt.Sprintf("  MISSED  %s, by %.0f%%\n", figure, 100*v.MissedBy)
	if len(v.SpentOn) > 0 {
		text += "          spent on " + partsText(v.SpentOn) + "\n"
	}
	return text
}

// Verdicts is the text of all.
func Verdicts(list []Verdict) string {
	var b strings.Builder
	for _, v := range list {
		b.WriteString(v.Text())
	}
	return b.String()
}
