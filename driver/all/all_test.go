package all_test

import (
	"testing"

	"aether/driver/all"
)

// TestNamesAreTheDrivers: a driver is chosen by the table's name before it is made.
func TestNamesAreTheDrivers(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range all.Makers() {
		if got := m.New().Info().Name; got != m.Name || seen[got] {
			t.Errorf("the table says %s, and its driver %s (there before: %v)", m.Name, got, seen[got])
		}
		seen[m.Name] = true
	}
}
