package cli

import (
	"context"
	"strings"
	"testing"

	"aether/sandbox"
)

// TestDriversAreMadeWhenAskedFor: what a command does not use, it does not make.
func TestDriversAreMadeWhenAskedFor(t *testing.T) {
	for args, want := range map[string]string{
		"":                                 "",
		"version":                          "",
		"rank":                             "",
		"run --help":                       "",
		"__complete run --driver ":         "",
		"run -- true":                      "one",
		"run --driver two -- true":         "two",
		"run --isolation kernel -- true":   "one two", // up to the first that is strong enough
		"run --isolation hardware -- true": "one two three",
		"systems":                          "one two three",
	} {
		var made []string
		table := func(name string, b sandbox.Boundary) sandbox.Maker {
			return sandbox.Maker{Name: name, New: func() sandbox.Driver {
				made = append(made, name)
				return refusing{answering{info: sandbox.Info{Name: name, Boundary: b}, probe: func(context.Context) sandbox.Report { return sandbox.Report{Reason: "no"} }}, sandbox.Invalidf("image", "no")}
			}}
		}
		makers := []sandbox.Maker{table("one", sandbox.ProcessBoundary), table("two", sandbox.KernelBoundary), table("three", sandbox.ProcessBoundary)}
		Main(t.Context(), split(args), strings.NewReader(""), &strings.Builder{}, &strings.Builder{}, makers)
		if got := strings.Join(made, " "); got != want {
			t.Errorf("aether %s made %q, want %q", args, got, want)
		}
	}
}

// split keeps an empty last word, which is what is being completed.
func split(args string) []string {
	words := strings.Fields(args)
	if strings.HasSuffix(args, " ") {
		words = append(words, "")
	}
	return words
}

// TestAloneIsHelp: a command of commands that is given none says what it has.
func TestAloneIsHelp(t *testing.T) {
	for _, args := range []string{"", "template", "bench", "kernel"} {
		words := strings.Fields(args)
		if got, want := succeed(t, words...), succeed(t, append(words, "--help")...); got != want {
			t.Errorf("aether %s said %q, not its help", args, got)
		}
	}
}
