package tokentest_test

import (
	"testing"

	"github.com/tiktoken-go/tokenizer"

	"aether/tool"
)

// TestTokens: descriptions are short. Counted are names, descriptions and input schemas,
// by OpenAI's public tokenizer o200k_base.
func TestTokens(t *testing.T) {
	codec, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		t.Fatal(err)
	}
	for profile, most := range map[tool.Profile]int{tool.Full: 6000, tool.Compact: 2000} {
		tools, err := tool.Of(profile)
		if err != nil {
			t.Fatal(err)
		}
		for _, format := range []tool.Format{tool.Anthropic, tool.OpenAI, tool.OpenAIResponses, tool.Gemini} {
			list, err := tool.Project(format, tools)
			if err != nil {
				t.Fatal(err)
			}
			count, err := codec.Count(string(list))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s %s: %d tools, %d tokens", profile, format, len(tools), count)
			if count > most {
				t.Errorf("the %s profile takes %d tokens in the format %s, more than %d", profile, count, format, most)
			}
		}
	}
}
