// An agent over `aether mcp`: Anthropic's package asks the model, the protocol's package calls
// the tools, and the sandboxes that they make end with it.
//
//   npm install @anthropic-ai/sdk @modelcontextprotocol/sdk
//   ANTHROPIC_API_KEY=... node agent.ts 'Which primes are below 50? Compute them.'
import Anthropic from "@anthropic-ai/sdk";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const model = new Anthropic();
const aether = new Client({ name: "agent", version: "1.0.0" });
await aether.connect(new StdioClientTransport({ command: "aether", args: ["mcp"], env: process.env as Record<string, string> }));

const { tools } = await aether.listTools();
const offered: Anthropic.Tool[] = tools.map((t) => ({ name: t.name, description: t.description, input_schema: t.inputSchema }));
const messages: Anthropic.MessageParam[] = [{ role: "user", content: process.argv[2] }];
for (;;) {
  const turn = await model.messages.create({ model: "claude-sonnet-5-5", max_tokens: 8192, tools: offered, messages });
  messages.push({ role: "assistant", content: turn.content });
  const answers: Anthropic.ToolResultBlockParam[] = [];
  for (const block of turn.content) {
    if (block.type === "text") console.log(block.text);
    if (block.type !== "tool_use") continue;
    // A call that failed answers with its class and what to do next: the model is told that too.
    const answer: any = await aether.callTool({ name: block.name, arguments: block.input as Record<string, unknown> });
    answers.push({ type: "tool_result", tool_use_id: block.id, content: answer.content[0].text, is_error: answer.isError });
  }
  if (answers.length === 0) break;
  messages.push({ role: "user", content: answers });
}
await aether.close();
