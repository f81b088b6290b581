package checkpoint

import (
	"reflect"
	"testing"
)

func TestParseTimers(t *testing.T) {
	got, err := parseTimers("ID: 0\nsignal: 14/0000000000000007\nnotify: signal/pid.2634\nClockID: 1\nID: 3\nsignal: 34/00000000deadbeef\nnotify: signal/tid.2635\nClockID: 0\n")
	want := []posixTimer{{ID: 0, Clock: 1, Signal: 14, Value: 7}, {ID: 3, Signal: 34, Value: 0xdeadbeef, Notify: notifyThread, Thread: 2635}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for _, bad := range []string{"signal: 1/0", "ID: x", "ID: 1\nnotify: loudly/pid.1", "ID: 1\nsignal: 14/x"} {
		if _, err := parseTimers(bad); err == nil {
			t.Errorf("%q is understood", bad)
		}
	}
}

func FuzzParseTimers(f *testing.F) {
	f.Add("ID: 0\nsignal: 14/0000000000000007\nnotify: signal/pid.2634\nClockID: 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		if list, err := parseTimers(text); err == nil && len(list) > maxTimers {
			t.Fatalf("%d timers", len(list))
		}
	})
}
