// The providers' own packages ask a scripted model, in every format that the program projects its
// tools into, and the protocol's own package calls what the model wants called. A line of JSON is
// printed for each way.
import { execFileSync } from "node:child_process";
import { isDeepStrictEqual } from "node:util";
import Anthropic from "@anthropic-ai/sdk";
import { transformJSONSchema } from "@anthropic-ai/sdk/lib/transform-json-schema";
import { GoogleGenAI } from "@google/genai";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ListToolsResultSchema } from "@modelcontextprotocol/sdk/types.js";
import OpenAI from "openai";
import { toStrictJsonSchema } from "openai/lib/transform";

const url = process.env.MODEL_URL!;
const key = process.env.MODEL_KEY!;
const wanted = JSON.parse(process.env.WANTED!);
const list = (format: string) => JSON.parse(execFileSync("aether", ["tools", "--format", format], { encoding: "utf8" }));

type Call = { id: string; name: string; arguments: any };
type Answer = { call: Call; text: string; structure: any; failed: boolean };
type Turn = { text: string; calls: Call[] };
// A model takes the answers to the calls of its last turn, and gives the next.
type Model = (answers: Answer[]) => Promise<Turn>;

const task = "Make the program work.";

function anthropic(streamed: boolean): Model {
  const client = new Anthropic({ apiKey: key, baseURL: url, maxRetries: 0 });
  const tools: Anthropic.Tool[] = list("anthropic");
  const messages: Anthropic.MessageParam[] = [{ role: "user", content: task }];
  return async (answers) => {
    if (answers.length)
      messages.push({ role: "user", content: answers.map((a) => ({ type: "tool_result" as const, tool_use_id: a.call.id, content: a.text, is_error: a.failed })) });
    const request = { model: "scripted", max_tokens: 1024, tools, messages };
    const turn = streamed ? await client.messages.stream(request).finalMessage() : await client.messages.create(request);
    messages.push({ role: "assistant", content: turn.content });
    return {
      text: turn.content.map((b) => (b.type === "text" ? b.text : "")).join(""),
      calls: turn.content.filter((b) => b.type === "tool_use").map((b) => ({ id: b.id, name: b.name, arguments: b.input })),
    };
  };
}

function completions(streamed: boolean): Model {
  const client = new OpenAI({ apiKey: key, baseURL: url + "/v1", maxRetries: 0 });
  const tools: OpenAI.Chat.Completions.ChatCompletionFunctionTool[] = list("openai");
  const messages: OpenAI.Chat.Completions.ChatCompletionMessageParam[] = [{ role: "system", content: "You work by tools." }, { role: "user", content: task }];
  return async (answers) => {
    for (const a of answers) messages.push({ role: "tool", tool_call_id: a.call.id, content: a.text });
    const request = { model: "scripted", tools, messages };
    const turn = streamed ? await client.chat.completions.stream(request).finalChatCompletion() : await client.chat.completions.create(request);
    const { content, tool_calls } = turn.choices[0].message;
    messages.push({ role: "assistant", content, ...(tool_calls?.length ? { tool_calls } : {}) });
    const calls = (tool_calls ?? []).map((c) => ({ id: c.id, name: (c as any).function.name, arguments: JSON.parse((c as any).function.arguments) }));
    return { text: content ?? "", calls };
  };
}

function responses(streamed: boolean): Model {
  const client = new OpenAI({ apiKey: key, baseURL: url + "/v1", maxRetries: 0 });
  const tools: OpenAI.Responses.FunctionTool[] = list("openai-responses");
  const input: OpenAI.Responses.ResponseInput = [{ role: "user", content: task }];
  return async (answers) => {
    for (const a of answers) input.push({ type: "function_call_output", call_id: a.call.id, output: a.text });
    const request = { model: "scripted", tools, input, store: false };
    const turn = streamed ? await client.responses.stream(request).finalResponse() : await client.responses.create(request);
    input.push(...(turn.output as any[]).map(({ parsed_arguments, ...item }) => item));
    const calls = turn.output.filter((item) => item.type === "function_call");
    return { text: turn.output_text, calls: calls.map((c: any) => ({ id: c.call_id, name: c.name, arguments: JSON.parse(c.arguments) })) };
  };
}

function gemini(streamed: boolean): Model {
  const client = new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: url } });
  const contents: any[] = [{ role: "user", parts: [{ text: task }] }];
  return async (answers) => {
    if (answers.length)
      contents.push({ role: "user", parts: answers.map((a) => ({ functionResponse: { id: a.call.id, name: a.call.name, response: a.structure } })) });
    const request = { model: "scripted", contents, config: { tools: list("gemini") } };
    const parts: any[] = [];
    if (streamed) {
      for await (const chunk of await client.models.generateContentStream(request)) parts.push(...(chunk.candidates?.[0]?.content?.parts ?? []));
    } else {
      parts.push(...((await client.models.generateContent(request)).candidates?.[0]?.content?.parts ?? []));
    }
    contents.push({ role: "model", parts });
    const calls = parts.filter((p) => p.functionCall).map((p) => ({ id: p.functionCall.id, name: p.functionCall.name, arguments: p.functionCall.args }));
    return { text: parts.map((p) => p.text ?? "").join(""), calls };
  };
}

const aether = new Client({ name: "sdks", version: "1" });
await aether.connect(new StdioClientTransport({ command: "aether", args: ["mcp", "--profile", "full"], env: process.env as Record<string, string> }));

// work has a model work until it calls nothing more, and holds what came of it to what is wanted.
async function work(model: Model) {
  const printed: string[] = [];
  for (let answers: Answer[] = []; ; ) {
    const turn = await model(answers);
    if (!turn.calls.length) {
      if (turn.text !== "Done." || !isDeepStrictEqual(printed, wanted)) throw new Error(`it ends with ${turn.text}, after ${JSON.stringify(printed)}`);
      return;
    }
    answers = [];
    for (const call of turn.calls) {
      const answer: any = await aether.callTool({ name: call.name, arguments: call.arguments ?? {} });
      if (call.name === "command_run") printed.push(answer.structuredContent.stdout.text);
      else if (answer.isError) printed.push(answer.structuredContent.error.class);
      answers.push({ call, text: answer.content[0].text, structure: answer.structuredContent, failed: answer.isError === true });
    }
  }
}

// sorted has the keys of every object in one order.
const sorted = (v: any): any =>
  Array.isArray(v) ? v.map(sorted) : v && typeof v === "object" ? Object.fromEntries(Object.keys(v).sort().map((k) => [k, sorted(v[k])])) : v;

async function behaviour(name: string, try_: () => unknown) {
  const began = Date.now();
  let error = "";
  try {
    await try_();
  } catch (e: any) {
    error = String(e?.stack ?? e);
  }
  console.log(JSON.stringify({ Name: name, MS: Date.now() - began, Error: error }));
}

for (const [name, model] of Object.entries({ anthropic, completions, responses, gemini })) {
  await behaviour(name, () => work(model(false)));
  await behaviour(name + " as a stream", () => work(model(true)));
}

// The packages know what strict modes take: what they make of a schema is that schema, but
// that Anthropic's leaves the type of an enum out.
await behaviour("strict schemas", () => {
  const schemas = [...list("openai").map((t: any) => t.function), ...list("openai-responses")];
  for (const { name, parameters, strict } of schemas)
    if (!strict || !isDeepStrictEqual(toStrictJsonSchema(parameters), parameters)) throw new Error(`${name} is not strict: ${JSON.stringify(toStrictJsonSchema(parameters))}`);
  const marked = list("anthropic").filter((t: any) => t.strict);
  for (const { name, input_schema } of marked) {
    const plain = JSON.parse(JSON.stringify({ properties: {}, ...input_schema }), (_, v) => (v?.enum ? { ...v, type: undefined } : v));
    const made = transformJSONSchema(input_schema);
    if (JSON.stringify(sorted(made)) !== JSON.stringify(sorted(plain))) throw new Error(`${name} is not strict: ${JSON.stringify(made)}`);
  }
  if (!marked.length) throw new Error("none of Anthropic's is strict");
});
await behaviour("the protocol's schema", async () => {
  const printed = ListToolsResultSchema.parse(list("mcp"));
  const { tools } = await aether.listTools();
  const byName = (list: any[]) => [...list].sort((a, b) => (a.name < b.name ? -1 : 1)).map(({ icons, execution, ...t }) => t);
  if (!isDeepStrictEqual(byName(tools), byName(printed.tools))) throw new Error("what is printed is not what is served");
});
await aether.close();
