package cli

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// serveTLS starts a daemon with an authority of its own and gives its URL.
func serveTLS(t *testing.T, state string) (url string) {
	t.Helper()
	cmd := program("serve", "--state", state, "--listen", "127.0.0.1:0", "--tls-local", "--driver", "cell")
	log, err := cmd.StderrPipe()
	check(t, err)
	check(t, cmd.Start())
	lines := bufio.NewScanner(log)
	for url == "" && lines.Scan() {
		var line struct{ Msg, Address string }
		check(t, json.Unmarshal(lines.Bytes(), &line))
		if line.Msg == "listening" && !filepath.IsAbs(line.Address) {
			url = "https://" + line.Address
		}
	}
	t.Cleanup(func() {
		check(t, cmd.Process.Signal(os.Interrupt))
		for lines.Scan() { // to the end of the daemon
		}
		check(t, cmd.Wait())
	})
	return url
}

// TestCommandsOverTLS: the daemon of another host is asked with a key, if its certificate
// is trusted, and its tenant's sandboxes are used as one's own.
func TestCommandsOverTLS(t *testing.T) {
	dir := newHome(t)
	state := filepath.Join(dir, "other")
	url := serveTLS(t, state)
	key := strings.TrimSpace(succeed(t, "key", "create", "--operator", "--state", state))
	t.Setenv(urlVariable, url)
	t.Setenv(keyVariable, key)
	checkLine(t, run(t, nil, "list").stderr, "certificate")
	t.Setenv(authorityVariable, filepath.Join(dir, "none"))
	checkLine(t, run(t, nil, "list").stderr, "AETHER_CA: ")
	t.Setenv(authorityVariable, filepath.Join(state, "authority.crt"))
	id := create(t)
	if got := run(t, nil, "exec", id, "--", "sh", "-c", "echo out; exit 4"); got != (outcome{"out\n", "", 4}) {
		t.Errorf("%+v", got)
	}
	file := filepath.Join(dir, "file")
	check(t, os.WriteFile(file, []byte("there and back"), 0o600))
	succeed(t, "cp", file, id+":/tmp/file")
	succeed(t, "cp", id+":/tmp/file", filepath.Join(dir, "back"))
	if text, err := os.ReadFile(filepath.Join(dir, "back")); err != nil || string(text) != "there and back" {
		t.Errorf("%q, %v", text, err)
	}
	if got := offered(t, "exec", ""); got != id+" :4" {
		t.Errorf("%q is offered", got)
	}
	succeed(t, "rm", id)
	t.Setenv(keyVariable, key[:len(key)-1]+"x")
	checkLine(t, run(t, nil, "list").stderr, "the key is wrong")
	if _, err := os.Lstat(daemonSocket()); err == nil {
		t.Error("another daemon was started")
	}
}
