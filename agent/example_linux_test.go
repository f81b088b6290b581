package agent_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"aether/agent"
	"aether/engine"
	"aether/tool"
)

// A program has a model work in sandboxes of its engine, in eight branches.
func Example() {
	var e *engine.Engine // opened by engine.Open
	caller := engine.Caller{Tenant: "alice", Name: "alice"}
	session, err := tool.New(tool.Options{Backend: tool.OfEngine(e, caller, nil), Own: true})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	key := os.Getenv("ANTHROPIC_API_KEY")
	model, err := agent.Open(agent.Provider{Name: "anthropic", Model: "claude-sonnet-5-5", Key: key})
	if err != nil {
		log.Fatal(err)
	}
	out, err := agent.Run(context.Background(), agent.Options{Session: session, Model: model, Task: "Make the tests pass.",
		Branch: agent.Branch{Count: 8, At: []int{3}, Score: "make test"}, Transcript: os.Stderr, Secrets: []string{key}})
	fmt.Println(out.Answer, err)
}
