package cli

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"aether/tool"
)

// Each question is answered by a line of its own; only y is yes, and what a call says cannot
// move a terminal.
func TestAskPerson(t *testing.T) {
	var shown strings.Builder
	cmd := &cobra.Command{}
	cmd.SetErr(&shown)
	cmd.SetIn(strings.NewReader("y\nno\n\n Y \nyes\n"))
	call := tool.Request{Name: "command_run", Arguments: []byte("{\"command\":\"\u009b2Jrm\"}")}
	for i, want := range []bool{true, false, false, true, false, false} { // the last has no answer
		if yes, err := askPerson(t.Context(), cmd, "1", call); yes != want || err != nil {
			t.Errorf("answer %d is %v, %v", i, yes, err)
		}
	}
	if text := shown.String(); strings.Contains(text, "\u009b") || !strings.Contains(text, `\u009b2Jrm`) {
		t.Errorf("it is asked as %q", text)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	never, _ := io.Pipe()
	cmd.SetIn(never)
	if yes, err := askPerson(ended, cmd, "1", call); yes || err == nil {
		t.Errorf("a run that has ended is answered %v, %v", yes, err)
	}
}
