package script

import (
	"encoding/json"
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
		asks  = `{"model":"m","tools":[{"type":"function","name":"a","parameters":{}}],"input":[{"role":"user","content":"Do."}`
		item  = `,{"type":"reasoning","summary":[]},{"type":"function_call","call_id":"1","name":"a","arguments":"{}"},{"type":"function_call","call_id":"2","name":"a","arguments":"{}"}`
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
		{"/v1/responses", asks + `]}`, "First."},
		{"/v1/responses", asks + item + `,{"type":"function_call_output","call_id":"2","output":"x"},{"type":"function_call_output","call_id":"1","output":"x"}]}`, "Second."},
		{"/v1/responses", asks + item + `,{"type":"function_call_output","call_id":"2","output":"x"}]}`, "has no answer"},
		{"/v1/responses", asks + `,{"type":"unheard_of"}]}`, "format"},
		{"/v1/responses", `{"model":"m","input":"Do."}`, "no tools"},
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

// TestCallsOfAnswers: calls are made of the fields of the answers before them, however a
// provider's clients wrote those.
func TestCallsOfAnswers(t *testing.T) {
	answer := `{"sandbox":"s1","files":[{"path":"/a"},{"path":"/b"}]}`
	failure := `{"error":{"next":{"tool":"file_list","arguments":{"path":"/tmp"}}}}`
	for name, said := range map[string][]any{
		"text":  {saidOf(quoted(t, answer)), saidOf(quoted(t, failure))},
		"parts": {saidOf([]byte(`[{"type":"text","text":` + string(quoted(t, answer)) + `}]`)), saidOf([]byte(`[{"type":"text","text":` + string(quoted(t, failure)) + `}]`))},
		"plain": {saidOf([]byte(answer)), saidOf([]byte(failure)), saidOf([]byte(`"no JSON"`))},
	} {
		conversation := []message{{said: said[:1]}, {model: true}, {said: said[1:]}}
		calls, err := fill([]Call{{Name: "a", Arguments: object{"id": object{"answer": "sandbox"}, "at": object{"answer": "files.1.path"}, "n": 1}}, {Next: true}}, conversation)
		if err != nil || len(calls) != 2 || calls[0].Arguments["id"] != "s1" || calls[0].Arguments["at"] != "/b" || calls[0].Arguments["n"] != 1 {
			t.Fatalf("%s: %+v, %v", name, calls, err)
		}
		if calls[1].Name != "file_list" || calls[1].Arguments["path"] != "/tmp" {
			t.Errorf("%s: the next call is %+v", name, calls[1])
		}
		for _, path := range []string{"nothing", "files.2.path", "files.x", "sandbox.deeper", ""} {
			if calls, err := fill([]Call{{Name: "a", Arguments: object{"x": object{"answer": path}}}}, conversation); err == nil {
				t.Errorf("%s: %q gives %+v", name, path, calls)
			}
		}
	}
	if calls, err := fill([]Call{{Next: true}}, nil); err == nil {
		t.Errorf("without a failure the next call is %+v", calls)
	}
}

func quoted(t *testing.T, text string) json.RawMessage {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return quoted
}
