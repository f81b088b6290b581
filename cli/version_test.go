package cli

import (
	"encoding/json"
	"runtime"
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	var got map[string]any
	if err := json.Unmarshal([]byte(succeed(t, "version", "--json")), &got); err != nil {
		t.Fatal(err)
	}
	if got["go"] != runtime.Version() || got["os"] != runtime.GOOS || got["arch"] != runtime.GOARCH || got["version"] == "" {
		t.Errorf("got %v", got)
	}
	if text := succeed(t, "version"); text != readBuild().String()+"\n" || text != succeed(t, "--version") {
		t.Errorf("got %q", text)
	}
}

func TestBuildFromStamps(t *testing.T) {
	info := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}}}
	for _, c := range []struct {
		build build
		want  string
	}{
		{build{Go: "go1", OS: "os", Arch: "arch"}, "aether v1.2.3 (commit abc, modified) go1 os/arch"},
		{build{Version: "9", Commit: "def", Go: "go1", OS: "os", Arch: "arch"}, "aether 9 (commit def) go1 os/arch"},
	} {
		c.build.fill(info)
		if got := c.build.String(); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}
