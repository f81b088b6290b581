package bounded

import (
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReader(t *testing.T) {
	for _, c := range []struct {
		text string
		max  int64
		long bool
	}{{"", 0, false}, {"a", 0, true}, {"abc", 3, false}, {"abcd", 3, true}, {strings.Repeat("x", 10000), 9999, true}} {
		for name, from := range map[string]io.Reader{"whole": strings.NewReader(c.text), "by bytes": iotest.OneByteReader(strings.NewReader(c.text)),
			"end with data": iotest.DataErrReader(strings.NewReader(c.text))} {
			got, err := ReadAll(from, "the text", c.max)
			var long *TooLong
			if errors.As(err, &long) != c.long || !c.long && err != nil {
				t.Errorf("%.10q up to %d, %s: %v", c.text, c.max, name, err)
			}
			if want := c.text[:min(len(c.text), int(c.max))]; string(got) != want {
				t.Errorf("%.10q up to %d, %s: %.10q", c.text, c.max, name, got)
			}
		}
	}
}

// TestReaderStaysTooLong reads on after the failure, as careless callers do.
func TestReaderStaysTooLong(t *testing.T) {
	r := &Reader{From: strings.NewReader("abcdef"), What: "it", Max: 2}
	_, _ = io.ReadAll(r)
	if n, err := r.Read(make([]byte, 8)); n != 0 || err == nil || err.Error() != "it is over 2 bytes" {
		t.Errorf("%d, %v", n, err)
	}
}

// TestOutputEndsItsProgram runs a program that never stops writing.
func TestOutputEndsItsProgram(t *testing.T) {
	out := &Output{What: "what yes says", Max: 100 << 10}
	cmd := exec.CommandContext(t.Context(), "yes")
	cmd.Stdout = out
	err := cmd.Run()
	if len(out.Bytes()) != 100<<10 || cmd.ProcessState == nil || cmd.ProcessState.Success() {
		t.Errorf("%d bytes, %v", len(out.Bytes()), err)
	}
}
