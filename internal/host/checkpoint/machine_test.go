package checkpoint

import (
	"slices"
	"strings"
	"testing"
	"time"

	"aether/sandbox"
)

func TestMachineRuns(t *testing.T) {
	here := Machine{Kernel: "k", Processor: []string{"sse2", "avx2"}, Clock: time.Hour}
	for name, c := range map[string]struct {
		was  Machine
		says string
	}{
		"itself":          {here, ""},
		"itself, earlier": {Machine{"k", []string{"avx2", "sse2"}, time.Minute}, ""},
		"less able":       {Machine{"k", []string{"sse2"}, 0}, ""},
		"more able":       {Machine{"k", []string{"sse2", "avx512f"}, 0}, "avx512f"},
		"other kernel":    {Machine{"other", []string{"sse2"}, 0}, "another kernel"},
		"up for longer":   {Machine{"k", nil, 2 * time.Hour}, "up for 2h0m0s, and this one has been for 1h0m0s"},
	} {
		err := here.Runs(c.was)
		if c.says == "" && err != nil || c.says != "" && (sandbox.ClassOf(err) != sandbox.Conflict || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProcessorFlags(t *testing.T) {
	got := processorFlags("processor\t: 0\nvmx flags\t: vnmi\nflags\t\t: fpu vme\nprocessor\t: 1\nflags\t\t: other\n")
	if !slices.Equal(got, []string{"fpu", "vme"}) {
		t.Errorf("%q", got)
	}
}
