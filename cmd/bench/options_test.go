package main

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"aether/lab/lifecycle"
	"aether/sandbox"
)

func TestParseOptions(t *testing.T) {
	opts, err := parseOptions([]string{"-rounds", "7", "-idle", "9", "-json", "-only", "cell,bwrap", "-subjects", "program"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if opts.rounds != 7 || opts.idle != 9 || !opts.json || !slices.Equal(opts.only, []string{"cell", "bwrap"}) || len(opts.chosen()) != 1 {
		t.Errorf("got %+v", opts)
	}
	if opts, err = parseOptions(nil, io.Discard); err != nil || opts.rounds < 200 || opts.idle != 1000 {
		t.Errorf("defaults: %+v, %v", opts, err)
	}
	if !slices.Equal(opts.only, lifecycle.Systems()) || len(opts.chosen()) != len(subjectNames()) {
		t.Errorf("not everything is measured by default: %+v", opts)
	}
}

func TestParseOptionsRefuses(t *testing.T) {
	for _, test := range []struct{ args, field string }{
		{"-rounds 0", "rounds"}, {"-rounds 100001", "rounds"}, {"-idle -1", "idle"},
		{"-only cell,docker", "only"}, {"-only=", "only"}, {"-subjects cell", "subjects"}, {"cell", "arguments"}, {"-what", ""}, {"-rounds x", ""},
	} {
		_, err := parseOptions(strings.Fields(test.args), io.Discard)
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Class != sandbox.Invalid || e.Field != test.field {
			t.Errorf("%s: %v", test.args, err)
		}
		if status := doMain(strings.Fields(test.args), io.Discard, io.Discard); status != 2 {
			t.Errorf("%s: exit status %d", test.args, status)
		}
	}
}
