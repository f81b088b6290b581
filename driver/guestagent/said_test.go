package guestagent

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"aether/sandbox"
)

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"plain":                             "plain",
		"two\r\nlines\n":                    "two\nlines",
		"\x1b[2m09:00\x1b[0m \x1b[31mERROR": "09:00 ERROR",
		"\x1b[38;5;1mred\x1b[m":             "red",
		"\x1b]0;title\x07a":                 "a",
		"\x1b]8;;http://x\x1b\\link":        "link",
		"\x1bP1$r\x1b\\b":                   "b",
		"\x1bc\x1b(Bc":                      "c",
		"\x1b]0;no end":                     "0;no end",
		"\x1b[31":                           "31",
		"end\x1b":                           "end",
		"\u009b31mC1":                       "31mC1",
		"\u202eright to left":               "right to left",
		"a\x00\x07\x08\x7fb\tc":             "ab c",
		"\xff\xfeé":                         "??é",
		"":                                  "",
	} {
		if got := Printable(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func FuzzPrintable(f *testing.F) {
	for _, seed := range []string{"a", "\x1b[31mred", "\x1b]0;t\x07", "\x1b\x1b[[31m31m", "\u009b", "\xff\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := Printable(text)
		for _, r := range got {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Fatalf("%q: %q has %q", text, got, r)
			}
		}
		if !utf8.ValidString(got) || len(got) > len(text) {
			t.Fatalf("%q: %q", text, got)
		}
	})
}

// TestSaidIsBounded: the end of it is kept, which says why a program gave up.
func TestSaidIsBounded(t *testing.T) {
	var said Said
	for range 100 {
		fmt.Fprint(&said, "\x1b[31m", strings.Repeat("x", 1000))
	}
	if _, err := io.WriteString(&said, "the end\xff\x1b[0m\n"); err != nil {
		t.Fatal(err)
	}
	if got := said.String(); len(got) > keptErrors || !strings.HasSuffix(got, "xthe end?") || strings.Contains(got, "\x1b") {
		t.Errorf("%d bytes: %.80q", len(got), got)
	}
}

func TestSaidExplains(t *testing.T) {
	var said Said
	cause := &sandbox.Error{Class: sandbox.Unavailable, Reason: "the channel ended"}
	if err := said.Explain(cause); err != error(cause) {
		t.Errorf("nothing was said: %v", err)
	}
	fmt.Fprint(&said, "\x1b[31mno room\x1b[0m")
	err := said.Explain(cause)
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Reason != "no room" || e.Class != sandbox.Unavailable || !errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
	if err := said.Explain(nil); err != nil {
		t.Error(err)
	}
}
