package lifecycle

import (
	"math"
	"testing"

	"aether/lab"
	"aether/sandbox"
)

// TestVerify has hyperfine time real commands. Whether both agree is for a quiet host to say.
func TestVerify(t *testing.T) {
	c, err := Verify(t.Context(), 1, lab.NewProgress(nil))
	if sandbox.ClassOf(err) == sandbox.Unavailable {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	measured := 0
	for _, s := range c.Systems {
		if s.Skipped != "" {
			continue
		}
		measured++
		if s.LabUS <= 0 || s.OtherUS <= 0 || s.LabRatio <= 0 || s.OtherRatio <= 0 || len(s.Command) < 3 {
			t.Errorf("%+v", s)
		}
	}
	if len(c.Systems) != 3 || measured < 2 {
		t.Errorf("%+v", c)
	}
	t.Log(c.Text())
}

func TestCheckIsJudged(t *testing.T) {
	for _, test := range []struct {
		runc, other float64
		agree       bool
		apart       float64
	}{{50, 100, true, 0}, {50, 84, true, 50/42.0 - 1}, {50, 119, true, 0.19}, {50, 121, false, 0.21}, {50, 80, false, 0.25}} {
		c := Check{Systems: []Checked{{Name: nameBwrap, LabUS: 10, OtherUS: 20}, {Name: "docker", Skipped: "no daemon"}, {Name: nameRunc, LabUS: test.runc, OtherUS: test.other}}}
		c.judge()
		if c.Agree != test.agree || math.Abs(c.Systems[2].Apart-test.apart) > 1e-9 || c.Systems[0].Apart != 0 {
			t.Errorf("%v, %v: %+v", test.runc, test.other, c)
		}
	}
}
