package daemon

import (
	"os"
	"strings"
	"testing"
)

func TestUpperOf(t *testing.T) {
	const other = "24 1 8:1 / /data rw,relatime - ext4 /dev/sda1 rw\n"
	for _, c := range []struct {
		name, mounts, dir string
		userAttrs         bool
	}{
		{"overlay", other + "23 1 0:50 / / rw,relatime master:7 - overlay overlay rw,lowerdir=/l/A:/l/B,upperdir=/d/x/diff,workdir=/d/x/work\n" + other, "/d/x/diff", false},
		{"user attributes", "23 1 0:50 / / rw - overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w,userxattr\n", "/u", true},
		{"covered", "23 1 0:50 / / rw - overlay overlay rw,upperdir=/u\n25 23 8:1 / / rw - ext4 /dev/sda1 rw\n", "", false},
		{"no overlay", "23 1 8:1 / / rw - ext4 /dev/sda1 rw\n", "", false},
		{"read-only", "23 1 0:50 / / ro - overlay overlay ro,lowerdir=/l/A:/l/B\n", "", false},
		{"relative", "23 1 0:50 / / rw - overlay overlay rw,upperdir=x/diff\n", "", false},
		{"escaped", `23 1 0:50 / / rw - overlay overlay rw,upperdir=/a\054b` + "\n", "", false},
		{"elsewhere", "23 1 0:50 / /root rw - overlay overlay rw,upperdir=/u\n", "", false},
		{"nothing", "\n \n - \n", "", false},
	} {
		if dir, userAttrs := upperOf(c.mounts); dir != c.dir || userAttrs != c.userAttrs {
			t.Errorf("%s: %q, %v", c.name, dir, userAttrs)
		}
	}
}

// TestUpperOfAnother: the root of a process that is not the container's, or runs another
// program than the guest service, is not taken for the container's.
func TestUpperOfAnother(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	_, own, _ := strings.Cut(strings.TrimSpace(string(groups)), "/")
	own, _, _ = strings.Cut(own, "\n")
	if !(First{os.Getpid(), own}).runs(self) {
		t.Fatalf("this process does not run its own program in %q", own)
	}
	for _, c := range []struct {
		first First
		guest string
	}{{First{os.Getpid(), own}, "/bin/sh"}, {First{os.Getpid(), "another-container"}, self}, {First{1 << 30, own}, self}} {
		if w, err := c.first.Upper(c.guest); w != nil || err != nil {
			t.Errorf("%+v: %v, %v", c, w, err)
		}
	}
}
