package checkpoint

import (
	"reflect"
	"testing"
)

func TestParseTimers(t *testing.T) {
	got, err := parseTimers("ID: 0\nsignal: 14/0000000000000007\nnotify: signal/pid.2634\nClockID: 1\nID: 3\nsignal: 34/00000000deadbeef\nnotify: signal/tid.2635\nClockID: 0\n")
	want := []posixTimer{{id: 0, clock: 1, signal: 14, value: 7}, {id: 3, signal: 34, value: 0xdeadbeef, notify: notifyThread, thread: 2635}}
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
