// As chat.cjs, for OpenAI's Responses.
const { createRequire } = require("node:module");
const { parameters, weather, called } = require("./weather.cjs");
const [dir, baseURL, apiKey] = process.argv.slice(2);
const from = createRequire(dir + "/package.json");

async function withOpenAI(name) {
  const client = new (from(name).OpenAI)({ baseURL, apiKey });
  const first = await client.responses.create({ model: "everturn", input: `First, ${name}.` });
  const helper = client.responses.stream({ model: "everturn", input: "Second.", previous_response_id: first.id });
  let streamed = "";
  helper.on("response.output_text.delta", (e) => (streamed += e.delta));
  const final = await helper.finalResponse();
  const events = [];
  for await (const e of await client.responses.retrieve(final.id, { stream: true })) events.push(JSON.stringify(e));
  const tail = [];
  for await (const e of await client.responses.retrieve(final.id, { stream: true, starting_after: 3 })) tail.push(JSON.stringify(e));
  let background = await client.responses.create({ model: "everturn", input: "Second.", background: true });
  const queued = background.status;
  while (["queued", "in_progress"].includes(background.status)) background = await client.responses.retrieve(background.id);
  const parsed = await client.responses.parse({ model: "everturn", input: "As JSON.",
    text: { format: { type: "json_schema", name: "n", strict: true, schema: {
      type: "object", properties: { n: { type: "integer" } }, required: ["n"], additionalProperties: false } } } });
  const conversation = await client.conversations.create({ metadata: { a: "b" } });
  const talk = [];
  for (const input of [`First, ${name}.`, "Second."])
    talk.push((await client.responses.create({ model: "everturn", input, conversation: conversation.id })).output_text);
  const call = await client.responses.create({ model: "everturn", input: "Touch it." });
  const asked = call.output.find((o) => o.type === "mcp_approval_request");
  const approved = await client.responses.create({ model: "everturn", previous_response_id: call.id,
    input: [{ type: "mcp_approval_response", approval_request_id: asked.id, approve: true }] });
  const functions = [{ type: "function", name: "weather", parameters, strict: true }];
  const asks = await client.responses.create({ model: "everturn", input: "Weather?", tools: functions });
  const calls = asks.output.filter((o) => o.type === "function_call");
  const results = calls.map((c) => ({ type: "function_call_output", call_id: c.call_id, output: weather(JSON.parse(c.arguments)) }));
  const called = (await client.responses.create({ model: "everturn", previous_response_id: asks.id, input: results })).output_text;
  const input = await client.responses.inputItems.list(first.id);
  const cancelled = await client.responses.cancel(first.id);
  await client.responses.delete(first.id);
  const gone = await client.responses.retrieve(first.id).catch((e) => e.status);
  return { first: first.output_text, streamed, final: final.output_text, tokens: final.usage.total_tokens > 0,
    replayed: events.length > 4 && JSON.stringify(tail) === JSON.stringify(events.slice(4)),
    last: JSON.parse(events.at(-1)).response.output_text ?? JSON.parse(events.at(-1)).response.output[0].content[0].text,
    queued, background: background.output_text, parsed: parsed.output_parsed, talk,
    asked: [asked.server_label, asked.name], before: call.status, approved: approved.output_text,
    kinds: approved.output.map((o) => o.type), input: input.data[0].content[0].text, cancelled: cancelled.status, gone, calls: calls.length, called };
}

async function withAI() {
  const { generateText, streamText, jsonSchema, stepCountIs } = from("ai");
  const model = from("@ai-sdk/openai").createOpenAI({ baseURL, apiKey }).responses("everturn");
  const first = await generateText({ model, prompt: "First, ai." });
  const stream = streamText({ model, messages: [{ role: "user", content: "First, ai." },
    { role: "assistant", content: first.text }, { role: "user", content: "Second." }] });
  let streamed = "";
  for await (const part of stream.textStream) streamed += part;
  return { first: first.text, streamed, finish: await stream.finishReason, called: await called(generateText, model, jsonSchema, stepCountIs) };
}

async function withLangChain() {
  const { ChatOpenAI } = from("@langchain/openai");
  const model = new ChatOpenAI({ model: "everturn", apiKey, configuration: { baseURL }, useResponsesApi: true });
  const first = await model.invoke([["user", "First, langchain."]]);
  let streamed = "";
  for await (const chunk of await model.stream([["user", "First, langchain."], first, ["user", "Second."]])) streamed += chunk.text;
  return { first: first.text, streamed };
}

(async () => {
  const print = (client, got) => console.log(JSON.stringify({ client, ...got }));
  print("openai", await withOpenAI("openai"));
  print("openai-6", await withOpenAI("openai-6"));
  print("ai", await withAI());
  print("langchain", await withLangChain());
})().catch((e) => { console.error(e); process.exit(1); });
