package features

import "testing"

func TestSufficient(t *testing.T) {
	for name, c := range map[string]struct {
		found []Facility
		want  bool
	}{
		"nothing looked at":   {nil, false},
		"all there":           {[]Facility{{State: OK, Required: true}, {State: OK}}, true},
		"a luxury is missing": {[]Facility{{State: OK, Required: true}, {State: Missing}}, true},
		"a need in part":      {[]Facility{{State: Limited, Required: true}}, true},
		"a need is missing":   {[]Facility{{State: OK, Required: true}, {State: Missing, Required: true}}, false},
	} {
		if got := Sufficient(c.found); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
