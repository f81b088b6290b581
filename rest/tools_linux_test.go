package rest_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"aether/engine"
	"aether/rest"
	"aether/tool"
)

// answer has a model that is shown the tools say what to do, and does it.
func answer(ctx context.Context, client *rest.Client, ask func(context.Context, json.RawMessage) ([]byte, error), tell func([]json.RawMessage)) error {
	session, err := tool.New(tool.Options{Backend: client.Backend(), Own: true, Idle: 10 * time.Minute})
	if err != nil {
		return err
	}
	defer session.Close(ctx)
	tools, err := tool.Project(tool.Anthropic, session.Tools())
	if err != nil {
		return err
	}
	message, err := ask(ctx, tools) // the model's next message
	if err != nil {
		return err
	}
	answers, err := session.Call(ctx, tool.Anthropic, message) // what goes into the next request
	tell(answers)
	return err
}

// TestPageOfTools runs what the page of tools shows in Go, over a daemon.
func TestPageOfTools(t *testing.T) {
	d := open(t, rest.Limits{})
	client, err := rest.NewClient(rest.ClientOptions{URL: d.http, Key: annsKey})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	made, err := client.Create(t.Context(), engine.CreateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(_ context.Context, tools json.RawMessage) ([]byte, error) {
		if !strings.Contains(string(tools), `"command_run"`) {
			t.Errorf("the tools are %.200s", tools)
		}
		return []byte(`{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"command_run","input":{"sandbox":"` + made.ID + `","command":"echo $((6*7))"}},
			{"type":"tool_use","id":"b","name":"command_run","input":{"sandbox":"nobodys","command":"true"}}]}`), nil
	}
	var answers []json.RawMessage
	if err := answer(t.Context(), client, ask, func(list []json.RawMessage) { answers = list }); err != nil {
		t.Fatal(err)
	}
	if len(answers) != 2 || !strings.Contains(string(answers[0]), `42\\n`) || !strings.Contains(string(answers[1]), `not_found`) || !strings.Contains(string(answers[1]), `"is_error":true`) {
		t.Errorf("the answers are %s", answers)
	}
	if systems, err := client.Backend().Systems(t.Context()); err != nil || len(systems) == 0 {
		t.Errorf("the systems are %v, %v", systems, err)
	}
}

// TestNoAgents: a door without agents says so.
func TestNoAgents(t *testing.T) {
	d := open(t, rest.Limits{})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.http+"/mcp", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-Key", annsKey)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusNotImplemented || res.Header.Get("Aether-Error") != "unsupported" {
		t.Errorf("it answers %s", res.Status)
	}
}
