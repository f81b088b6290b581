package lab

import "testing"

func TestAlign(t *testing.T) {
	got := Align([][]string{{"system", "median", "p99"}, {"cell", "0.5", "12.25"}, {"cell+service", "skipped: a long reason"}})
	want := "" +
		"  system        median    p99\n" +
		"  cell             0.5  12.25\n" +
		"  cell+service  skipped: a long reason\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
