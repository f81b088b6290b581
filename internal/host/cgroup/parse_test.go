package cgroup

import (
	"path"
	"reflect"
	"strings"
	"testing"
)

const hybridMounts = `22 27 0:21 / /proc rw,relatime - proc proc rw
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:5 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 /docker/abc /sys/fs/with\040blank rw master:1 shared:2 - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate
broken line
`

func TestParseMounts(t *testing.T) {
	want := []mount{
		{point: "/sys/fs/cgroup/cpu,cpuacct", root: "/", controllers: []string{"rw", "cpu", "cpuacct"}},
		{point: "/sys/fs/with blank", root: "/docker/abc", controllers: []string{"rw", "memory"}},
		{point: "/sys/fs/cgroup/unified", root: "/", unified: true},
	}
	if got := parseMounts(hybridMounts); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestParseMembership(t *testing.T) {
	got := parseMembership("4:memory:/a:b\n2:cpu,cpuacct:/c\n1:name=systemd:/d\n0::/e\nbroken\n")
	want := map[string]string{"memory": "/a:b", "cpu": "/c", "cpuacct": "/c", "name=systemd": "/d", "": "/e"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestDirectoryOfGroup(t *testing.T) {
	for _, c := range []struct{ root, group, want string }{
		{"/", "/", "/m"},
		{"/", "/a/b", "/m/a/b"},
		{"/docker/x", "/docker/x", "/m"},
		{"/docker/x", "/docker/x/y", "/m/y"},
		{"/docker/x", "/docker/xyz", ""},
		{"/docker/x", "/other", ""},
		{"/", "/../outside", ""},
	} {
		got, err := mount{point: "/m", root: c.root}.directory(c.group)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s in %s: %q, %v; want %q", c.group, c.root, got, err, c.want)
		}
	}
}

func TestCounter(t *testing.T) {
	text := []byte("oom 3\noom_kill 12\nbad x\nlast 7")
	for key, want := range map[string]int64{"oom": 3, "oom_kill": 12, "last": 7} {
		if got, ok := counter(text, key); got != want || !ok {
			t.Errorf("%s: %d, %v", key, got, ok)
		}
	}
	for _, key := range []string{"bad", "absent", ""} {
		if got, ok := counter(text, key); ok {
			t.Errorf("%q: %d", key, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(hybridMounts, "4:memory:/docker/abc\n0::/e\n")
	f.Add("1 2 3 \\777 /\\04 x - cgroup2 a b", "::/../..")
	f.Fuzz(func(t *testing.T, mounts, membership string) {
		groups := parseMembership(membership)
		for _, m := range parseMounts(mounts) {
			for _, group := range groups {
				dir, err := m.directory(group)
				if err == nil && !within(dir, path.Clean(m.point)) {
					t.Errorf("%q in %+v gives %q", group, m, dir)
				}
			}
		}
	})
}

func within(dir, point string) bool {
	return point == "/" || dir == point || strings.HasPrefix(dir, point+"/")
}
