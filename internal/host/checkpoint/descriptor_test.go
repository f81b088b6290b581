package checkpoint

import (
	"reflect"
	"testing"
)

func TestParseDescriptor(t *testing.T) {
	for _, c := range []struct {
		name, target, info string
		want               Descriptor
	}{
		{"file", "/tmp/a", "pos:\t12\nflags:\t0102001\nmnt_id:\t5\n", Descriptor{Kind: File, Position: 12, Flags: 0o102001}},
		{"deleted", "/tmp/a (deleted)", "flags:\t02000000\n", Descriptor{Kind: Deleted, Flags: 0o2000000}},
		{"pipe", "pipe:[77]", "pos:\t0\nflags:\t01\n", Descriptor{Kind: Pipe, Inode: 77, Flags: 1}},
		{"socket", "socket:[78]", "flags:\t02\n", Descriptor{Kind: Socket, Inode: 78, Flags: 2}},
		{"eventfd", "anon_inode:[eventfd]", "flags:\t02\neventfd-count:               2a\neventfd-id: 5\n", Descriptor{Kind: Event, Flags: 2, Count: 42}},
		{"epoll", "anon_inode:[eventpoll]", "flags:\t02\ntfd:        5 events:       19 data:        500000005  pos:0 ino:61af sdev:7\n",
			Descriptor{Kind: Poll, Flags: 2, Watches: []Watch{{5, 0x19, 0x500000005}}}},
		{"timerfd", "anon_inode:[timerfd]", "clockid: 1\nticks: 4\nsettime flags: 01\nit_value: (3, 500)\nit_interval: (1, 0)\n",
			Descriptor{Kind: Timer, Clock: 1, Settings: 1, Ticks: 4, Value: [2]int64{3, 500}, Interval: [2]int64{1, 0}}},
		{"signalfd", "anon_inode:[signalfd]", "sigmask:\t0000000000000002\n", Descriptor{Kind: Signals, Mask: 2}},
		{"memfd", "/memfd:x (deleted)", "flags:\t02\n", Descriptor{Kind: Memory, Flags: 2}},
		{"flock", "/tmp/a", "lock:\t1: FLOCK  ADVISORY  WRITE 359 00:13:11691 0 EOF\n", Descriptor{Kind: File, Locks: []Lock{{"FLOCK", true, 0, -1}}}},
		{"lock of a range", "/tmp/a", "lock:\t1: POSIX  ADVISORY  READ 359 00:13:11691 120 129\n", Descriptor{Kind: File, Locks: []Lock{{"POSIX", false, 120, 129}}}},
		{"lease", "/tmp/a", "lock:\t1: LEASE  ACTIVE    READ 359 00:13:11691 0 EOF\n", Descriptor{Kind: File, Locks: []Lock{{"LEASE ACTIVE READ", false, 0, -1}}}},
		{"inotify", "anon_inode:inotify", "flags:\t00\n", Descriptor{Kind: Other}},
	} {
		c.want.Number, c.want.Target = 9, c.target
		got, err := parseDescriptor(9, c.target, c.info)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v\nwant %+v", c.name, got, err, c.want)
		}
	}
}

func FuzzParseDescriptor(f *testing.F) {
	f.Add("pipe:[77]", "pos:\t0\nflags:\t01\n")
	f.Add("anon_inode:[eventpoll]", "tfd:        5 events:       19 data:        5  pos:0\n")
	f.Add("/tmp/a", "lock:\t1: FLOCK  ADVISORY  WRITE 359 00:13:11691 0 EOF\n")
	f.Add("anon_inode:[timerfd]", "it_value: (3, 500)\n")
	f.Fuzz(func(t *testing.T, target, info string) {
		d, err := parseDescriptor(3, target, info)
		if err == nil && len(d.Watches) > maxWatches {
			t.Fatalf("%d watches", len(d.Watches))
		}
		if err == nil && len(d.Locks) > maxLocks {
			t.Fatalf("%d locks", len(d.Locks))
		}
	})
}

func TestJoinedGroups(t *testing.T) {
	const head = "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n1\tlo        :     1      V3\n\t\t\t\t010000E0     1 0:00000000\t\t0\n"
	if joinedGroups(head) {
		t.Error("the group of all hosts counts as joined")
	}
	if !joinedGroups(head + "\t\t\t\tFB0000E0     1 0:00000000\t\t0\n") {
		t.Error("a group that was joined is not seen")
	}
}

func TestJoinedGroups6(t *testing.T) {
	const usual = "1    lo              ff020000000000000000000000000001     1 0000000C 0\n1    lo              ff0200000000000000000001ff000001     1 00000004 0\n"
	if joinedGroups6(usual) {
		t.Error("the kernel's own groups count as joined")
	}
	if !joinedGroups6(usual + "1    lo              ff020000000000000000000000000123     1 00000004 0\n") {
		t.Error("a group that was joined is not seen")
	}
}
