package rest_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aether/engine"
	"aether/guest"
	"aether/rest"
)

// upper makes a sandbox, has it do something, and ends it.
func upper(ctx context.Context, url, key string) error {
	client, err := rest.NewClient(rest.ClientOptions{URL: url, Key: key})
	if err != nil {
		return err
	}
	defer client.Close()
	box, err := client.Create(ctx, engine.CreateRequest{Key: "task-42", Timeout: 10 * time.Minute})
	if err != nil {
		return err
	}
	defer client.Destroy(ctx, box.ID)
	running, err := client.GuestOf(box.ID, guest.ClientOptions{}).Start(ctx, guest.Cmd{
		Path: "tr", Args: []string{"a-z", "A-Z"}, Stdin: strings.NewReader("as it comes\n"), Stdout: os.Stdout,
	})
	if err != nil {
		return err
	}
	_, err = running.Wait()
	return err
}

// TestPageInGo runs what the page of the API shows in Go.
func TestPageInGo(t *testing.T) {
	d := open(t, rest.Limits{})
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	stdout := os.Stdout
	os.Stdout = out
	err = upper(t.Context(), d.http, annsKey)
	os.Stdout = stdout
	if text, read := os.ReadFile(out.Name()); err != nil || read != nil || string(text) != "AS IT COMES\n" {
		t.Errorf("%q, %v, %v", text, read, err)
	}
}

// TestPageInShell runs what the page of the API shows with curl.
func TestPageInShell(t *testing.T) {
	for _, program := range []string{"curl", "jq"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("this host has no %s", program)
		}
	}
	page, err := os.ReadFile("../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(page), "```sh\n")
	script, _, found := strings.Cut(after, "```\n")
	if !found {
		t.Fatal("the page shows no script")
	}
	d := open(t, rest.Limits{})
	cmd := exec.CommandContext(t.Context(), "sh", "-euc", script)
	cmd.Env = append(os.Environ(), "SOCKET="+d.socket)
	out, err := cmd.CombinedOutput()
	lines := strings.Split(string(out), "\n")
	if err != nil || len(lines) != 6 || !strings.HasPrefix(lines[0], "hello from ") {
		t.Fatalf("%s, %v", out, err)
	}
	if got := strings.Join(lines[1:], " "); got != "/tmp/data some data 1 done " {
		t.Errorf("it says %q", got)
	}
}
