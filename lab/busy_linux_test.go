package lab

import (
	"sync/atomic"
	"testing"
	"time"
)

func TestParseProcessors(t *testing.T) {
	p, err := parseProcessors("cpu  10 1 20 300 40 5 6 7 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
	if err != nil || p.idle != 340 || p.total != 389 {
		t.Errorf("%+v, %v", p, err)
	}
	for _, bad := range []string{"", "cpu 1 2\n", "cpu0 1 2 3 4 5 6 7 8\n", "cpu 1 2 3 x 5 6 7 8\n"} {
		if _, err := parseProcessors(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestBusy(t *testing.T) {
	var over atomic.Bool
	defer over.Store(true)
	go func() {
		for n := 0; !over.Load(); n++ {
			_ = n * n // a processor's work
		}
	}()
	if share, err := Busy(t.Context(), 200*time.Millisecond); err != nil || share <= 0 || share > 1 {
		t.Errorf("%v, %v", share, err)
	}
}

func TestParseCPU(t *testing.T) {
	name, virtualized := parseCPU("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t\t: fpu hypervisor lm\n")
	if name != "Some CPU @ 2 GHz" || !virtualized {
		t.Errorf("%q, %v", name, virtualized)
	}
	if name, virtualized = parseCPU("model name : A\nflags : fpu\n"); name != "A" || virtualized {
		t.Errorf("%q, %v", name, virtualized)
	}
	if name, virtualized = parseCPU("processor : 0\n"); name != "" || virtualized {
		t.Errorf("%q, %v", name, virtualized)
	}
}
