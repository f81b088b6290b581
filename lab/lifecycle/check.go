package lifecycle

import (
	"fmt"
	"math"
	"strings"

	"aether/lab"
)

// agreement is how far ratios of two ways of measuring may be apart.
const agreement = 0.2

// Check is what another program made of the same commands that the lab has timed.
type Check struct {
	By      string    `json:"by"` // the program, with its version
	Systems []Checked `json:"systems"`
	// Within is how far ratios may be apart, and Agree says that none is further.
	Within float64 `json:"within"`
	Agree  bool    `json:"agree"`
}

// Checked is a command of one system, from its start to its end, in medians.
type Checked struct {
	Name    string   `json:"name"`
	Skipped string   `json:"skipped,omitempty"`
	Command []string `json:"command,omitempty"`
	LabUS   float64  `json:"lab_us,omitempty"`
	OtherUS float64  `json:"other_us,omitempty"`
	// LabRatio and OtherRatio are to the first system, and Apart is how far the one is from
	// the other: 0.1 is a tenth more, or less.
	LabRatio   float64 `json:"lab_ratio,omitempty"`
	OtherRatio float64 `json:"other_ratio,omitempty"`
	Apart      float64 `json:"apart"`
}

// judge compares the ratios of those that were measured.
func (c *Check) judge() {
	var first *Checked
	c.Within, c.Agree = agreement, true
	for i := range c.Systems {
		s := &c.Systems[i]
		if s.Skipped != "" {
			continue
		}
		if first == nil {
			first = s
		}
		s.LabRatio, s.OtherRatio = lab.Of(s.LabUS, first.LabUS), lab.Of(s.OtherUS, first.OtherUS)
		// The same whichever of both is the greater.
		s.Apart = math.Exp(math.Abs(math.Log(s.LabRatio/s.OtherRatio))) - 1
		c.Agree = c.Agree && s.Apart <= agreement
	}
}

// Text draws the check for people.
func (c Check) Text() string {
	rows := [][]string{{"", "lab, ms", "other, ms", "lab, ratio", "other, ratio", "apart"}}
	for _, s := range c.Systems {
		if s.Skipped != "" {
			rows = append(rows, []string{s.Name, "skipped: " + s.Skipped})
			continue
		}
		rows = append(rows, []string{s.Name, fmt.Sprintf("%.3f", s.LabUS/1000), fmt.Sprintf("%.3f", s.OtherUS/1000),
			fmt.Sprintf("%.3g", s.LabRatio), fmt.Sprintf("%.3g", s.OtherRatio), fmt.Sprintf("%.0f%%", 100*s.Apart)})
	}
	verdict := "The ratios agree"
	if !c.Agree {
		verdict = "The ratios do not agree"
	}
	return strings.Join([]string{"Plain commands from their start to their end, by the lab and by " + c.By + ", medians", lab.Align(rows),
		fmt.Sprintf("%s within %.0f%%.\n", verdict, 100*c.Within)}, "\n")
}
