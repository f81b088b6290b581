package cli

import (
	"strings"
	"testing"

	"aether/internal/host/pty"
)

// TestSecretOnATerminal: a value is asked for and not shown, and a signal leaves a terminal
// that shows what is typed.
func TestSecretOnATerminal(t *testing.T) {
	newHome(t)
	k := onKeyboard(t, "secret", "set", "TOKEN", "--host", "api.example.com")
	k.see("not shown")
	k.press("hush-hush\r")
	if status := k.status(); status != 0 || strings.Contains(k.screen(), "hush") {
		t.Errorf("status %d, the terminal shows %q", status, k.screen())
	}
	if got := succeed(t, "secret", "list", "--json"); !strings.Contains(got, `"TOKEN"`) || !strings.Contains(got, `"api.example.com"`) {
		t.Error(got)
	}
	if got := offered(t, "secret", "rm", ""); got != "TOKEN :4" {
		t.Errorf("offered %q", got)
	}

	k = onKeyboard(t, "secret", "set", "TOKEN")
	k.see("not shown")
	held, err := pty.Open(k.master) // or the terminal is gone with the program
	check(t, err)
	defer held.Close()
	k.press("hush\x03")
	_ = k.cmd.Wait()
	if status := k.cmd.ProcessState.ExitCode(); status != 1 {
		t.Errorf("status %d after an interrupt", status)
	}
	k.press("shown again\r")
	k.see("shown again")
	if strings.Contains(k.screen(), "hush") {
		t.Errorf("the terminal shows %q", k.screen())
	}
}

// TestSecretArguments: a value is no argument, and what is given as one is not repeated.
func TestSecretArguments(t *testing.T) {
	for _, args := range []string{"secret set", "secret set A sk-hush", "secret set sk-hush", "secret set A=hush", "secret set 1hush", "secret set A --any-host --host hush.example", "secret list hush", "secret rm", "secret nothing"} {
		got := run(t, nil, strings.Fields(args)...)
		if got.status != 2 || got.stdout != "" || strings.Contains(got.stderr, "hush") && !strings.Contains(args, "list") {
			t.Errorf("%s: %+v", args, got)
		}
	}
	for text, want := range map[string]string{"a\n": "a", "a\r\n": "a", "a": "a", "a\n\n": "a\n", "\n": "", "a\r": "a", "\na": "\na"} {
		if got := withoutLineEnd([]byte(text)); string(got) != want {
			t.Errorf("%q became %q", text, got)
		}
	}
}
