package guestagent

import (
	"errors"
	"testing"

	"aether/sandbox"
)

func TestRefusesRates(t *testing.T) {
	if err := RefusesRates("x", sandbox.Limits{MemoryBytes: 1, DiskBytes: 1}); err != nil {
		t.Errorf("other limits are refused: %v", err)
	}
	for field, l := range map[string]sandbox.Limits{"limits.disk_read_rate": {DiskReadRate: 1}, "limits.disk_write_rate": {DiskWriteRate: 1}} {
		var e *sandbox.Error
		if err := RefusesRates("x", l); !errors.As(err, &e) || e.Class != sandbox.Unsupported || e.Field != field || e.Reason == "" || e.Remedy == "" {
			t.Errorf("%s: %v", field, err)
		}
	}
}
