package script

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestConversationsAreChecked: what the providers refuse, the server does too; else an agent
// that works with it could not work with them.
func TestConversationsAreChecked(t *testing.T) {
	server, err := Serve(Script{"main": {{Text: "First."}, {Text: "Second."}}, "2.1": {{Text: "Branch."}}}, "key")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	const (
		begin = `{"model":"m","max_tokens":9,"tools":[{"name":"a","input_schema":{}}],"messages":[{"role":"user","content":[{"type":"text","text":"Do."}]}`
		use   = `,{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"a","input":{}}]}`
		said  = `,{"role":"user","content":[{"type":"text","text":"The sandbox was forked: this is branch 2.1, attempt 1 of 2."}]}`
		open  = `{"model":"m","tools":[{"type":"function","function":{"name":"a","parameters":{}}}],"messages":[{"role":"user","content":"Do."}`
		model = `,{"role":"assistant","content":null,"tool_calls":[{"id":"1"},{"id":"2"}]}`
		tools = `{"tools":[{"functionDeclarations":[{"name":"a"}]}],"contents":[{"role":"user","parts":[{"text":"Do."}]}`
		call  = `,{"role":"model","parts":[{"functionCall":{"name":"a"}}]}`
	)
	answer := func(ids ...string) (text string) {
		for _, id := range ids {
			text += `,{"type":"tool_result","tool_use_id":"` + id + `","content":"x"}`
		}
		return `,{"role":"user","content":[` + strings.TrimPrefix(text, ",") + `]}`
	}
	for _, c := range []struct{ path, body, says string }{
		{"/v1/messages", begin + `]}`, "First."},
		{"/v1/messages", begin + use + answer("1") + `]}`, "Second."},
		{"/v1/messages", begin + use + answer("1") + said + `]}`, "Branch."},
		{"/v1/messages", begin + use + `]}`, "begin and end"},
		{"/v1/messages", begin + use + said + `]}`, "not answered at once"},
		{"/v1/messages", begin + use + answer("2") + `]}`, "to no tool call"},
		{"/v1/messages", begin + use + answer("1", "1") + `]}`, "to no tool call"},
		{"/v1/messages", strings.Replace(begin, `"max_tokens":9,`, "", 1) + `]}`, "format"},
		{"/v1/messages", begin + use + answer("1") + use + answer("1") + `]}`, "no turn 3"},
		{"/v1/chat/completions", open + `]}`, "First."},
		{"/v1/chat/completions", open + model + `,{"role":"tool","tool_call_id":"2"},{"role":"tool","tool_call_id":"1"}]}`, "Second."},
		{"/v1/chat/completions", open + model + `,{"role":"tool","tool_call_id":"2"}]}`, "has no answer"},
		{"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"Do."}]}`, "no tools"},
		{"/v1beta/models/m:generateContent", tools + `]}`, "First."},
		{"/v1beta/models/m:generateContent", tools + call + `,{"role":"user","parts":[{"functionResponse":{"name":"a"}}]}]}`, "Second."},
		{"/v1beta/models/m:generateContent", tools + call + `,{"role":"user","parts":[{"functionResponse":{"name":"b"}}]}]}`, "to no tool call"},
		{"/v1beta/models/m:countTokens", tools + `]}`, "no such method"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Api-Key", "key")
		req.Header.Set("Anthropic-Version", "2023-06-01")
		req.Header.Set("Authorization", "Bearer key")
		req.Header.Set("X-Goog-Api-Key", "key")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !strings.Contains(string(text), c.says) || (resp.StatusCode == http.StatusOK) != strings.HasSuffix(c.says, ".") {
			t.Errorf("%s\n%s\nanswers %d %s, %v", c.path, c.body, resp.StatusCode, text, err)
		}
	}
}
