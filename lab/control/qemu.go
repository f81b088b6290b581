package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// qemu speaks QMP to a machine without anything in it.
func qemu(ctx context.Context) (findings, error) {
	name := map[string]string{"amd64": "qemu-system-x86_64", "arm64": "qemu-system-aarch64"}[runtime.GOARCH]
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, "-machine", "none", "-nodefaults", "-display", "none", "-S", "-qmp", "stdio")
	cmd.WaitDelay = time.Second
	found, err := converse(cmd)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cmd, err)
	}
	return found, nil
}

// questions are what a machine is asked, in this order.
var questions = []string{`{"execute":"qmp_capabilities","id":"hello"}`, `{"execute":"query-qmp-schema","id":"schema"}`,
	`{"execute":"query-commands","id":"commands"}`, `{"execute":"no-such-command","id":"` + lastQuestion + `"}`}

const lastQuestion = "failure"

// converse starts a machine, asks it and has it quit.
func converse(cmd *exec.Cmd) (findings, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	_, err = io.WriteString(in, strings.Join(questions, "\n")+"\n")
	found, wrong := readQMP(out, func() error {
		_, err := io.WriteString(in, `{"execute":"quit","id":"quit"}`+"\n")
		return err
	})
	in.Close()
	err = errors.Join(err, wrong)
	if err != nil {
		_ = cmd.Process.Kill() // it may have ended already
	}
	return found, errors.Join(err, cmd.Wait())
}

// message is one of QMP.
type message struct {
	ID     string          `json:"id"`
	Return json.RawMessage `json:"return"`
	Error  *struct {
		Class string `json:"class"`
	} `json:"error"`
	Event string `json:"event"`
}

// readQMP reads answers to their end, and calls quit after the last question's: what QEMU has
// not written when it quits is lost.
func readQMP(said io.Reader, quit func() error) (findings, error) {
	answers := map[string]message{}
	var event string
	for d := json.NewDecoder(said); d.More(); {
		var m message
		if err := d.Decode(&m); err != nil {
			return nil, fmt.Errorf("QMP: %w", err)
		}
		if m.Event != "" {
			event = m.Event
		}
		answers[m.ID] = m
		if m.ID == lastQuestion {
			if err := quit(); err != nil {
				return nil, fmt.Errorf("QMP: %w", err)
			}
		}
	}
	var schema []json.RawMessage
	var commands []struct{ Name string }
	if err := errors.Join(json.Unmarshal(answers["schema"].Return, &schema), json.Unmarshal(answers["commands"].Return, &commands)); err != nil {
		return nil, fmt.Errorf("QMP: %w", err)
	}
	has := func(names ...string) shown {
		for _, c := range commands {
			for _, name := range names {
				if c.Name == name {
					return shown{true, "query-commands lists " + name}
				}
			}
		}
		return shown{false, fmt.Sprintf("query-commands lists none of %s", strings.Join(names, ", "))}
	}
	failure := answers[lastQuestion].Error
	found := findings{
		Exec: has("guest-exec"), Files: has("guest-file-open"), Fork: has("fork", "x-fork"), Snapshot: has("snapshot-save", "migrate"), Policy: has("block_set_io_throttle"),
		Schema: {len(schema) > 0, fmt.Sprintf("query-qmp-schema gives %d entries", len(schema))},
		Tools:  {len(commands) > 0, fmt.Sprintf("query-commands lists %d", len(commands))},
		Errors: {failure != nil && failure.Class != "", fmt.Sprintf("a command that is none: %+v", failure)},
		Events: {event != "", fmt.Sprintf("at its end came the event %q", event)},
	}
	return found, nil
}
