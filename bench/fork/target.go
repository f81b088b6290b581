package fork

import "fmt"

// Targets that forks are held to.
const (
	targetFirstMS   = 2
	targetOfFresh   = 0.02
	targetPauseMS   = 1
	targetCrowd     = 1000
	targetCrowdSecs = 3
	targetCrowdMiB  = 1.2 * 1024
	targetClaimMS   = 0.15
)

// Verdict is one target and whether it was met.
type Verdict struct {
	Target string `json:"target"`
	Unit   string `json:"unit"`
	// Value is absent if the target could not be judged; Open says why.
	Value float64 `json:"value,omitempty"`
	Limit float64 `json:"limit"`
	Met   bool    `json:"met"`
	Open  string  `json:"open,omitempty"`
	// Spent are the parts of a figure that missed its target.
	Spent []Part `json:"spent_on,omitempty"`
}

// judge holds a report against every target.
func judge(r Report) []Verdict {
	first, fresh := find(r.First, rowFork), find(r.First, rowFresh)
	pause, claim := find(r.Pause, rowFork), find(r.Claim, rowClaim)
	var ofFresh float64
	if fresh.MedianUS > 0 {
		ofFresh = first.MedianUS / fresh.MedianUS
	}
	var crowd Crowd
	for _, c := range r.Crowds {
		if c.Children == targetCrowd {
			crowd = c
		}
	}
	name := fmt.Sprintf("%d children of a 64 MiB python3", targetCrowd)
	return []Verdict{
		atMost(rowFork+", to its first reply", "ms", first.MedianUS/1000, targetFirstMS, first.Parts),
		atMost("the same, beside a fresh start in a sandbox", "of its time", ofFresh, targetOfFresh, first.Parts),
		atMost("source paused, python3 with 20 modules", "ms", pause.MedianUS/1000, targetPauseMS, nil),
		atMost(name, "s", crowd.Seconds, targetCrowdSecs, nil),
		atMost(name, "MiB", crowd.TotalMiB, targetCrowdMiB, nil),
		atMost("claim from a pool, to the first byte", "ms", claim.MedianUS/1000, targetClaimMS, claim.Parts),
	}
}

// atMost is the verdict on a figure that must not be above the limit. A figure
// that is not there is no success.
func atMost(target, unit string, value, limit float64, parts []Part) Verdict {
	v := Verdict{Target: target, Unit: unit, Value: value, Limit: limit}
	switch {
	case value == 0:
		v.Open = "a figure that it needs was not measured"
	case value <= limit:
		v.Met = true
	default:
		v.Spent = parts
	}
	return v
}
