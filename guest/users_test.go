package guest

import (
	"slices"
	"strings"
	"testing"

	"aether/sandbox"
)

const passwdText = `root:x:0:0:root:/root:/bin/bash
# a comment
broken
:x:5:5::/:/bin/sh
big:x:4294967295:1::/:/bin/sh
neg:x:-1:1::/:/bin/sh
user:x:1000:1001:User,,,:/home/user:/bin/bash
bare:x:7:7:::
user:x:0:0::/root:/bin/sh
zero` + "\x00" + `:x:3:3::/:/bin/sh
`

const groupText = `root:x:0:
wheel:x:10:other,user
users:x:1001:user
docker:x:999:user
`

func TestFindAccount(t *testing.T) {
	for _, c := range []struct {
		who         string
		uid, gid    uint32
		home, shell string
		groups      []uint32
	}{
		{"root", 0, 0, "/root", "/bin/bash", []uint32{0}},
		{"user", 1000, 1001, "/home/user", "/bin/bash", []uint32{1001, 10, 999}},
		{"1000", 1000, 1001, "/home/user", "/bin/bash", []uint32{1001, 10, 999}},
		{"1000:5", 1000, 5, "/home/user", "/bin/bash", []uint32{5, 10, 1001, 999}},
		{"4242", 4242, 4242, "/", "/bin/sh", []uint32{4242}},
		{"bare", 7, 7, "/", "/bin/sh", []uint32{7}},
	} {
		a, err := findAccount([]byte(passwdText), []byte(groupText), c.who)
		if err != nil || a.uid != c.uid || a.gid != c.gid || a.home != c.home || a.shell != c.shell || !slices.Equal(a.groups, c.groups) {
			t.Errorf("%s: %+v, %v", c.who, a, err)
		}
	}
	for _, who := range []string{"nobody", "big", "neg", "zero", "4294967295", "-1", "1:x", ""} {
		if a, err := findAccount([]byte(passwdText), []byte(groupText), who); sandbox.ClassOf(err) != sandbox.Denied {
			t.Errorf("%q: %+v, %v", who, a, err)
		}
	}
	if a, err := findAccount(nil, nil, "root"); err != nil || a.uid != 0 || a.home != "/root" {
		t.Errorf("root without any users: %+v, %v", a, err)
	}
}

func TestGroupsAreBounded(t *testing.T) {
	group := strings.Repeat("g:x:5:user\n", 10*maxGroups)
	a, err := findAccount([]byte(passwdText), []byte(group), "user")
	if err != nil || len(a.groups) != maxGroups {
		t.Errorf("%d groups, %v", len(a.groups), err)
	}
}

func TestHomePath(t *testing.T) {
	a := account{home: "/home/user"}
	for in, want := range map[string]string{
		"": "/work", "~": "/home/user", "~/x": "/home/user/x", "x/../y": "/home/user/y",
		"/a/../b": "/b", "../../../etc": "/etc", "/..": "/", "./": "/home/user",
	} {
		if got, err := a.homePath(in, "/work"); got != want || err != nil {
			t.Errorf("%q: %q, %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"~root/x", "a\x00b"} {
		if got, err := a.homePath(in, ""); sandbox.ClassOf(err) != sandbox.Invalid {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
}

func FuzzAccounts(f *testing.F) {
	f.Add([]byte(passwdText), []byte(groupText), "user")
	f.Add([]byte("::::::::\n\n:"), []byte("a:b:0:c,,,d"), "0")
	f.Add([]byte("u:x:1:1::relative:sh"), []byte(""), "u")
	f.Fuzz(func(t *testing.T, passwd, group []byte, who string) {
		a, err := findAccount(passwd, group, who)
		if err != nil {
			return
		}
		if a.home[0] != '/' || a.shell[0] != '/' || len(a.groups) == 0 || len(a.groups) > maxGroups || a.uid == 1<<32-1 || a.gid == 1<<32-1 {
			t.Errorf("%+v", a)
		}
		names(passwd)
	})
}

func FuzzHomePath(f *testing.F) {
	f.Add("~/x", "/home/user")
	f.Add("../..", "/")
	f.Fuzz(func(t *testing.T, name, home string) {
		got, err := account{home: home}.homePath(name, "")
		if err == nil && (got[0] != '/' || strings.Contains(got+"/", "/../") || strings.ContainsRune(name, 0)) {
			t.Errorf("%q in %q: %q", name, home, got)
		}
	})
}
