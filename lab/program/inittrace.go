package program

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"aether/lab"
)

// readInit adds up what the runtime says of the packages of a program that was run
// with GODEBUG=inittrace=1.
func readInit(text string) (s lab.Sample, err error) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "init ") {
			continue
		}
		var name string
		var at, took float64
		if _, err := fmt.Sscanf(line, "init %s @%f ms, %f ms clock", &name, &at, &took); err != nil {
			return s, fmt.Errorf("the runtime says %q: %w", line, err)
		}
		lap := lab.Lap{Name: name, Took: time.Duration(took * float64(time.Millisecond))}
		s.Laps, s.First = append(s.Laps, lap), s.First+lap.Took
	}
	if s.First == 0 {
		err = errors.New("the runtime says nothing of packages")
	}
	return s, err
}
