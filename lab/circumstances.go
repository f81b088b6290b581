package lab

import (
	"fmt"
	"time"

	"aether/sandbox"
)

// Circumstances are those under which a driver was measured.
type Circumstances struct {
	Driver      string  `json:"driver"`
	Rounds      int     `json:"rounds"`
	TookSeconds float64 `json:"took_seconds"`
	LoadBefore  float64 `json:"load_before"`
	LoadAfter   float64 `json:"load_after"`
}

// Watch notes how long a measurement takes and the host's load around it.
func (c *Circumstances) Watch(measure func() error) (err error) {
	start := time.Now()
	if c.LoadBefore, err = Load(); err != nil {
		return err
	}
	if err := measure(); err != nil {
		return err
	}
	c.TookSeconds = time.Since(start).Seconds()
	c.LoadAfter, err = Load()
	return err
}

// Course is what was watched, for people.
func (c Circumstances) Course() string {
	took := time.Duration(c.TookSeconds * float64(time.Second)).Round(time.Second)
	return fmt.Sprintf("%v in all, load %.2f before and %.2f after", took, c.LoadBefore, c.LoadAfter)
}

// InRange refuses a count that is above max, or negative; zero is the default.
func InRange(field string, count, max int) error {
	if count < 0 || count > max {
		return sandbox.Invalidf(field, "%d is not between 1 and %d", count, max)
	}
	return nil
}
