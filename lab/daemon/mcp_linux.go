package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// overMCP asks the daemon as an agent does, by the tools of a program between them that is
// asked over its standard streams. undo ends that.
func overMCP(ctx context.Context, program string, s *server) (w way, undo func() error, err error) {
	cmd := exec.Command(program, "mcp")
	cmd.Env = append(os.Environ(), "AETHER_URL=unix://"+s.socket)
	client := mcp.NewClient(&mcp.Implementation{Name: "lab", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		return w, nil, fmt.Errorf("%s: %w", cmd, err)
	}
	w = overDoor(rowMCP, s.unix)
	w.exec = func(ctx context.Context, id string) error { return ask(ctx, session, id) }
	return w, session.Close, nil
}

// ask has a tool run the command.
func ask(ctx context.Context, session *mcp.ClientSession, id string) error {
	answer, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "command_run", Arguments: map[string]any{"sandbox": id, "command": program + " " + word}})
	if err != nil {
		return err
	}
	var ran struct {
		ExitCode int `json:"exit_code"`
		Stdout   struct{ Text string }
	}
	text, err := json.Marshal(answer.StructuredContent)
	if err = errors.Join(err, json.Unmarshal(text, &ran)); err != nil {
		return err
	}
	if answer.IsError {
		return fmt.Errorf("the tool failed: %s", text)
	}
	return check(ran.ExitCode, ran.Stdout.Text)
}
