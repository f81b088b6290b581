package containerd

import "testing"

func TestIsShim(t *testing.T) {
	for _, c := range []struct {
		args []string
		want bool
	}{
		{[]string{"/usr/bin/containerd-shim-runc-v2", "-namespace", "aether", "-id", "box", "-address", "/sock"}, true},
		{[]string{"containerd-shim-kata-v2", "-id", "box"}, true},
		{[]string{"containerd-shim-kata-v2", "-id", "box2"}, false},
		{[]string{"containerd-shim-kata-v2", "-id"}, false},
		{[]string{"containerd-shim-kata-v2", "box"}, false},
		{[]string{"/bin/sh", "-id", "box"}, false},
		{[]string{""}, false},
	} {
		if got := isShim(c.args, "box"); got != c.want {
			t.Errorf("%q: %v", c.args, got)
		}
	}
}

func TestEscape(t *testing.T) {
	for path, want := range map[string]string{"/plain": "/plain", "/a:b,c": `/a\:b\,c`, `/a\b`: `/a\\b`} {
		if got := escape(path); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
}
