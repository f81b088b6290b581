package agent

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"aether/agent/script"
	"aether/sandbox"
	"aether/tool"
)

const key = "sk-\"a<key>\\of-ours"

type args = map[string]any

// scripted is a model of a provider that says what a script does.
func scripted(t *testing.T, provider string, s script.Script) (Model, *script.Server) {
	t.Helper()
	server, err := script.Serve(s, key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	m, err := Open(Provider{Name: provider, Model: "scripted", Base: server.Base(provider), Key: key})
	if err != nil {
		t.Fatal(err)
	}
	m.(*client).pause = time.Microsecond
	return m, server
}

func conversation(t *testing.T, m Model) Conversation {
	t.Helper()
	tools, err := tool.Of(tool.Compact)
	if err != nil {
		t.Fatal(err)
	}
	list, err := project(m.Format(), tools, true)
	if err != nil {
		t.Fatal(err)
	}
	return Conversation{Line: mainLine, Step: 1, System: "s", Tools: list, Messages: say(m.Format(), nil, "Do it.")}
}

// TestRetries: what may pass is asked again, and nothing else is; keys are told to nobody.
func TestRetries(t *testing.T) {
	for _, provider := range Providers() {
		for name, c := range map[string]struct {
			refuse []int
			asked  int
			class  sandbox.Class
		}{
			"passes":   {[]int{429, 529, 500}, 4, -1},
			"does not": {[]int{503, 503, 503, 503, 503, 503}, tries, sandbox.Unavailable},
			"invalid":  {[]int{400}, 1, sandbox.Invalid},
			"denied":   {[]int{403}, 1, sandbox.Denied},
		} {
			m, server := scripted(t, provider, script.Script{"main": {{Text: "Hello.", Refuse: c.refuse}}})
			reply, err := m.Next(t.Context(), conversation(t, m))
			if server.Asked() != c.asked || (err == nil) != (c.class < 0) || err != nil && sandbox.ClassOf(err) != c.class || err == nil && reply.Text != "Hello." {
				t.Errorf("%s, %s: asked %d times, %+v, %v", provider, name, server.Asked(), reply, err)
			}
		}
		m, server := scripted(t, provider, script.Script{"main": {{Text: "Hello."}}})
		wrong := *m.(*client)
		wrong.Key = "sk-some-other-key"
		if _, err := wrong.Next(t.Context(), conversation(t, m)); sandbox.ClassOf(err) != sandbox.Denied || strings.Contains(err.Error(), wrong.Key) || server.Asked() != 1 {
			t.Errorf("%s: a wrong key gives %v", provider, err)
		}
	}
}

// TestKeysGoNowhereElse: neither in the clear, nor where somebody redirects to.
func TestKeysGoNowhereElse(t *testing.T) {
	for _, base := range []string{"http://example.org", "ftp://127.0.0.1", "https://user@example.org", "example.org", "https://example.org/?a=b", "http://localhost.example.org"} {
		if _, err := Open(Provider{Name: "openai", Model: "m", Base: base, Key: key}); sandbox.ClassOf(err) != sandbox.Invalid {
			t.Errorf("%s: %v", base, err)
		}
	}
	reached := false
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer thief.Close()
	door := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	defer door.Close()
	for _, provider := range Providers() {
		m, err := Open(Provider{Name: provider, Model: "m", Base: door.URL, Key: key})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Next(t.Context(), conversation(t, m)); err == nil || reached {
			t.Errorf("%s: followed %v, %v", provider, reached, err)
		}
	}
}

// TestAnswers: what of answers is no whole one is an error, not an end.
func TestAnswers(t *testing.T) {
	for answer, class := range map[string]sandbox.Class{
		`anthropic {"content":[{"type":"text","text":"a"}],"stop_reason":"max_tokens"}`: sandbox.Exhausted,
		`anthropic {"content":[7]}`: sandbox.Unavailable,
		`openai {"choices":[{"message":{"content":"a"},"finish_reason":"length"}]}`: sandbox.Exhausted,
		`openai {"choices":[]}`: sandbox.Unavailable,
		`openai []`:             sandbox.Unavailable,
		`gemini {"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"MAX_TOKENS"}]}`: sandbox.Exhausted,
		`gemini {"promptFeedback":{"blockReason":"SAFETY"}}`:                                       sandbox.Denied,
		`gemini {}`: sandbox.Unavailable,
		`openai-responses {"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}`: sandbox.Exhausted,
		`openai-responses {"status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[]}`:    sandbox.Denied,
		`openai-responses {"status":"failed","error":{"code":"server_error","message":"m"},"output":[]}`:           sandbox.Unavailable,
		`openai-responses {"output":[7]}`: sandbox.Unavailable,
		`openai-responses {}`:             sandbox.Unavailable,
	} {
		provider, text, _ := strings.Cut(answer, " ")
		if _, err := wires[provider].read([]byte(text)); sandbox.ClassOf(err) != class || err == nil {
			t.Errorf("%s: %v", answer, err)
		}
	}
	r, err := readGemini([]byte(`{"candidates":[{"content":{"parts":[{"text":"t","thought":true},{"text":"a"},{"functionCall":{"name":"x"},"thoughtSignature":"s"}]}}]}`))
	if err != nil || r.Text != "a" || !strings.Contains(string(r.Message), `"thoughtSignature":"s"`) {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestStreams: what comes as a stream is what would have come at once, and is heard as it
// comes; a stream that breaks off is asked for again.
func TestStreams(t *testing.T) {
	calls := []script.Call{{Name: "command_run", Arguments: args{"sandbox": "here", "command": "echo 'ä\"\\'"}}, {Name: "file_read", Arguments: args{"sandbox": "here", "path": "/"}}}
	for _, provider := range Providers() {
		ask := func(turn script.Turn) (r Reply, heard string, asked int, err error) {
			m, server := scripted(t, provider, script.Script{"main": {turn}})
			c := conversation(t, m)
			c.Hear = func(text string) { heard += text + "|" }
			r, err = m.Next(t.Context(), c)
			return r, heard, server.Asked(), err
		}
		plain, heard, _, err := ask(script.Turn{Text: "Grün.", Calls: calls, Plain: true})
		if err != nil || heard != "" || len(plain.Calls) != 2 || plain.Text != "Grün." || plain.Tokens.Output == 0 {
			t.Fatalf("%s at once: %+v, %q, %v", provider, plain, heard, err)
		}
		r, heard, _, err := ask(script.Turn{Text: "Grün.", Calls: calls})
		if err != nil || heard != "Gr|ün.|" || r.Text != plain.Text || r.Tokens != plain.Tokens || !reflect.DeepEqual(r.Calls, plain.Calls) {
			t.Errorf("%s as a stream: %+v, %q, %v; and at once %+v", provider, r, heard, err, plain)
		}
		if r, _, asked, err := ask(script.Turn{Text: "Grün.", Calls: calls, Break: 1, Refuse: []int{503}}); err != nil || asked != 3 || r.Text != plain.Text {
			t.Errorf("%s broken once: asked %d times, %+v, %v", provider, asked, r, err)
		}
	}
}

// FuzzStreams: whatever comes as a stream is an answer, or an error.
func FuzzStreams(f *testing.F) {
	f.Add("data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":7}}\n\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"a\",\"partial_json\":\"{\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n")
	f.Add("data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0}]},\"finish_reason\":\"stop\"}],\"usage\":{}}\n\ndata: [DONE]")
	f.Add("data: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\ndata: {\"type\":\"response.completed\",\"response\":{\"output\":[]}}\n\n")
	f.Add("data: {\"candidates\":[{\"content\":{\"parts\":[{}]},\"finishReason\":\"STOP\"}],\"usageMetadata\":{}}\r\n\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, w := range wires {
			body, err := assemble(strings.NewReader(text), w.stream(), func(string) {})
			if err == nil && !json.Valid(body) {
				t.Errorf("%s: %s", w.format, body)
			}
			if err == nil {
				_, _ = w.read(body)
			}
		}
	})
}

// FuzzAnswers: whatever a provider answers is a reply that can be said again, or an error.
func FuzzAnswers(f *testing.F) {
	f.Add(`{"content":[{"type":"tool_use","id":"a","name":"b","input":{}}]}`)
	f.Add(`{"choices":[{"message":{"content":"a","tool_calls":[{"id":"a","type":"function","function":{"name":"b","arguments":"{}"}}]}}]}`)
	f.Add(`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"x","args":null}}]}}]}`)
	f.Add(`{"output":[{"type":"message","content":[{"type":"output_text","text":"a"}]},{"type":"function_call","call_id":"a","name":"b","arguments":"{}"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, w := range wires {
			c := &client{wire: w}
			if r, err := c.reply([]byte(text)); err == nil && !json.Valid(r.Message) {
				t.Errorf("%s: %s", w.format, r.Message)
			}
		}
	})
}

// FuzzTranscript: any bytes are a transcript that can be drawn and replayed, or none.
func FuzzTranscript(f *testing.F) {
	f.Add(`{"kind":"began","line":"main","run":{"version":1,"format":"anthropic"}}` + "\n" + `{"kind":"forked","line":"main","lines":["1","main","1"]}` + "\n" + `{"kind":"called","line":"1"}` + "\n" + `{"kind":`)
	f.Fuzz(func(t *testing.T, text string) {
		entries, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		tree, err := NewTree(entries)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := json.Marshal(tree); err != nil {
			t.Fatal(err) // which a line that is its own fork would give
		}
		_, _ = Replay(entries)
	})
}

func TestScores(t *testing.T) {
	for stdout, want := range map[string]float64{"": 1, "ok": 1, "3": 3, "3 of 4": 1, "a\n-2.5\n\n": -2.5, "NaN": 1, "inf": 1, "1e999": 1} {
		if got := scoreOf(true, stdout); got.Number != want || !got.Passed {
			t.Errorf("%q: %+v", stdout, got)
		}
	}
	of := func(passed bool, n float64, tokens int) *line {
		return &line{score: &Score{passed, n}, tokens: Tokens{tokens, 0}}
	}
	broken := &line{err: http.ErrServerClosed}
	for want, forks := range [][]*line{
		{of(true, 1, 9), of(false, 7, 1)},
		{of(false, 1, 1), of(false, 2, 9)},
		{broken, of(true, 1, 9), of(true, 1, 8), of(true, 1, 8)},
	} {
		if best, err := choose(forks); err != nil || best != forks[want] {
			t.Errorf("case %d: %+v, %v", want, best, err)
		}
	}
	if _, err := choose([]*line{broken}); err == nil {
		t.Error("the best of none was found")
	}
}

// TestUndoIsProjected: the run's own tool is in every format beside the others.
func TestUndoIsProjected(t *testing.T) {
	for _, provider := range Providers() {
		m, _ := scripted(t, provider, nil)
		if list := conversation(t, m).Tools; bytes.Count(list, []byte(`"undo"`)) != 1 || bytes.Count(list, []byte(`"command_run"`)) != 1 {
			t.Errorf("%s: %s", provider, list)
		}
	}
}

// TestRunsCarryNoFiles: a model is not offered what reaches the host, whatever a policy says.
func TestRunsCarryNoFiles(t *testing.T) {
	tools, err := tool.Of(tool.Full)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []Policy{{}, {Tools: []string{"*"}}, {Tools: []string{"file_*load", "file_*"}}} {
		j, err := newJudge(p, tools)
		if len(p.Tools) == 2 {
			if sandbox.ClassOf(err) != sandbox.Invalid {
				t.Errorf("%v: %v", p.Tools, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range j.tools {
			if strings.HasSuffix(one.Name, "load") {
				t.Errorf("%v: %s is offered", p.Tools, one.Name)
			}
		}
	}
}
