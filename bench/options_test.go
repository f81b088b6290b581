package main

import (
	"errors"
	"io"
	"strings"
	"testing"

	"aether/sandbox"
)

func TestParseOptions(t *testing.T) {
	opts, err := parseOptions([]string{"-rounds", "7", "-idle", "9", "-json", "-only", "cell,bwrap"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if opts.rounds != 7 || opts.idle != 9 || !opts.json || !opts.wants("bwrap") || opts.wants("crun") {
		t.Errorf("got %+v", opts)
	}
	if opts, err = parseOptions(nil, io.Discard); err != nil || opts.rounds < 200 || opts.idle != 1000 {
		t.Errorf("defaults: %+v, %v", opts, err)
	}
	for _, name := range allNames {
		if !opts.wants(name) {
			t.Errorf("%s is not measured by default", name)
		}
	}
}

func TestParseOptionsRefuses(t *testing.T) {
	for _, test := range []struct{ args, field string }{
		{"-rounds 0", "rounds"}, {"-rounds 100001", "rounds"}, {"-idle -1", "idle"},
		{"-only cell,docker", "only"}, {"-only=", "only"}, {"cell", "arguments"}, {"-what", ""}, {"-rounds x", ""},
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
