package drivertest

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"aether/guest"
	"aether/sandbox"
)

// probeTime is what the contract gives a probe.
const probeTime = 2 * time.Second

// probe: a driver that is tested is usable, says what it lacks, and leaves
// nothing by looking.
func (c Config) probe(t *testing.T) {
	markSelf(t)
	dir := t.TempDir()
	driver := c.New(dir)
	if info := driver.Info(); info.Name == "" || info.Boundary == sandbox.AnyBoundary {
		t.Errorf("%+v", info)
	}
	driver.Probe(t.Context()) // what is made once for a program
	before := c.census(t, dir)
	report := c.probeInTime(t, driver)
	if !report.Usable || report.Reason != "" {
		t.Fatalf("the driver cannot run here: %s (%s)", report.Reason, report.Remedy)
	}
	for _, gap := range report.Gaps {
		if gap.Missing == "" || gap.Cost == "" {
			t.Errorf("a gap does not say what it costs: %+v", gap)
		}
		t.Logf("gap: %s: %s", gap.Missing, gap.Cost)
	}
	c.wantNoGrowth(t, before, dir)
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("probing has left %v (%v)", entries, err)
	}
}

// probeInTime probes again where it took too long, or found nothing usable in the time that it
// has: the host may have been at something else.
func (c Config) probeInTime(t *testing.T, driver sandbox.Driver) (report sandbox.Report) {
	t.Helper()
	var took time.Duration
	for range 10 {
		began := time.Now()
		report = driver.Probe(t.Context())
		took = time.Since(began)
		if inTime := took <= probeTime+c.within(500*time.Millisecond); inTime && report.Usable {
			return report
		}
	}
	t.Errorf("it took %v: %+v", took, report)
	return report
}

// leaks counts what the host holds before and after many lives.
func (c Config) leaks(t *testing.T) {
	markSelf(t)
	dir := t.TempDir()
	s := &suite{Config: c, driver: c.New(dir)}
	closeAfter(t, s.driver)
	for range 2 { // what is made once, and what is kept for the next
		if err := life(c.patient(t), s.driver, c.Image); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("lives", func(t *testing.T) {
		before := c.census(t, dir)
		s.each(t, c.few(16), func(int) error { return life(c.patient(t), s.driver, c.Image) })
		c.wantNoGrowth(t, before, dir)
	})
	t.Run("failures", func(t *testing.T) {
		before := c.census(t, dir)
		for _, r := range refused {
			if instance, err := s.driver.Create(c.patient(t), r.spec); err == nil {
				t.Errorf("%s: a sandbox was made", r.name)
				_ = instance.Destroy(t.Context())
			}
		}
		s.interrupted(t, sandbox.Spec{Image: c.Image})
		c.wantNoGrowth(t, before, dir)
	})
	t.Run("networks", func(t *testing.T) { s.egressLeaks(t, dir, sandbox.EgressNetwork) })
	t.Run("nat", func(t *testing.T) { s.egressLeaks(t, dir, sandbox.NatNetwork) })
	t.Run("driver", func(t *testing.T) { c.driverLeaks(t, s.driver) })
}

// closeAfter closes a driver with the test, if it can be closed.
func closeAfter(t *testing.T, driver sandbox.Driver) {
	t.Helper()
	closer, ok := driver.(sandbox.Closer)
	if !ok {
		return
	}
	t.Cleanup(func() {
		if err := closer.Close(context.Background()); err != nil {
			t.Errorf("close the driver: %v", err)
		}
	})
}

// interrupted gives up on Create at various moments, the first of them before it
// has begun. A driver may be done before; if it is not, it says that its time was
// over, and nothing else that went wrong because of that.
func (s *suite) interrupted(t *testing.T, spec sandbox.Spec) {
	for n := range s.few(12) {
		after := s.within(time.Duration(n) * 2 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), after)
		instance, err := s.driver.Create(ctx, spec)
		cancel()
		switch {
		case err != nil:
			wantClass(t, err, sandbox.Timeout)
		case after == 0:
			t.Error("a sandbox was made for a caller who had given up before")
			fallthrough
		default:
			if err := instance.Destroy(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}

// driverLeaks: a driver that is closed holds nothing.
func (c Config) driverLeaks(t *testing.T, others sandbox.Driver) {
	if closer, ok := others.(sandbox.Closer); ok {
		if err := closer.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	before := c.census(t, dir)
	driver := c.New(dir)
	closeAfter(t, driver)
	if err := life(c.patient(t), driver, c.Image); err != nil {
		t.Fatal(err)
	}
	closer, ok := driver.(sandbox.Closer)
	if !ok {
		return
	}
	if err := closer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	before.forgetFiles(dir) // directories may stay for the next program
	c.wantNoGrowth(t, before, dir)
}

// life makes a sandbox, leaves a daemon in it, runs a command and destroys it.
func life(ctx context.Context, driver sandbox.Driver, image string) error {
	instance, err := driver.Create(ctx, sandbox.Spec{Image: image})
	if err != nil {
		return err
	}
	c := guest.NewClient(instance.Dial, guest.ClientOptions{})
	defer c.Close()
	out, err := exec(ctx, c, shell("setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo done"))
	if err == nil && strings.TrimSpace(out.stdout) != "done" {
		err = errors.New("the command says " + out.stdout + out.stderr)
	}
	return errors.Join(err, instance.Destroy(ctx))
}

// held is what the driver's own system holds, if it can be asked.
func (c Config) held(t testing.TB) []string {
	t.Helper()
	if c.Left == nil {
		return nil
	}
	list, err := c.Left()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// wantNoGrowth gives the kernel and the background time to settle.
func (c Config) wantNoGrowth(t testing.TB, before census, dir string) {
	t.Helper()
	var grown []string
	if c.eventually(func() bool {
		grown = c.census(t, dir).grown(before)
		return len(grown) == 0
	}) {
		return
	}
	t.Errorf("the host holds more than before:\n%s", strings.Join(grown, "\n"))
}
