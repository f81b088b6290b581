package daemon

import "testing"

func TestGroupsOfAContainer(t *testing.T) {
	for text, want := range map[string]struct {
		Counters
		found bool
	}{
		"":                    {},
		"0::/other":           {},
		"garbage\n1:2":        {},
		"box\n::\n":           {},
		"0::/docker/box\n":    {Counters{"/sys/fs/cgroup/docker/box/memory.events", "/sys/fs/cgroup/docker/box/pids.events"}, true},
		"5:cpu:/docker/box\n": {Counters{}, true},
		"9:pids:/lxc.payload.box\n4:memory:/lxc.payload.box\n0::/lxc.payload.box\n": {Counters{"/sys/fs/cgroup/memory/lxc.payload.box/memory.oom_control", "/sys/fs/cgroup/pids/lxc.payload.box/pids.events"}, true},
		"9:pids:/other\n4:memory:/other\n0::/\n":                                    {},
	} {
		if got, found := parseGroups([]byte(text), "box"); got != want.Counters || found != want.found {
			t.Errorf("%q: %+v, %v", text, got, found)
		}
	}
	if got := (Counters{}).OOMKills(); got != nil {
		t.Errorf("what is not known is %d", *got)
	}
}

func TestKnown(t *testing.T) {
	for value, known := range map[int64]bool{-1: false, 0: false, 7: true} {
		if got := Known(value); (got != nil) != known || known && *got != value {
			t.Errorf("%d: %v", value, got)
		}
	}
	if got := Known(uint64(1) << 63); got != nil {
		t.Errorf("%d", *got)
	}
}
