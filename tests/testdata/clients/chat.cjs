// Uses the server as programs do that nobody of Everturn wrote. Arguments: the folder with node_modules, the API's
// address, the token. It prints one line of JSON for each client: what it has got.
const { createRequire } = require("node:module");
const { parameters, weather, called } = require("./weather.cjs");
const [dir, baseURL, apiKey] = process.argv.slice(2);
const from = createRequire(dir + "/package.json");

async function withOpenAI(name) {
  const OpenAI = from(name).OpenAI;
  const client = new OpenAI({ baseURL, apiKey });
  const messages = [{ role: "user", content: `First, ${name}.` }];
  const first = await client.chat.completions.create({ model: "everturn", messages });
  messages.push(first.choices[0].message, { role: "user", content: "Second." });
  const stream = client.chat.completions.stream({ model: "everturn", messages, stream_options: { include_usage: true } });
  let streamed = "";
  stream.on("content", (delta) => (streamed += delta));
  const final = await stream.finalChatCompletion();
  messages.push(final.choices[0].message, { role: "user", content: "As JSON." });
  const parsed = await client.chat.completions.parse({
    model: "everturn", messages,
    response_format: { type: "json_schema", json_schema: { name: "n", strict: true, schema: {
      type: "object", properties: { n: { type: "integer" } }, required: ["n"], additionalProperties: false } } },
  });
  const refused = await client.chat.completions.create({ model: "gpt-4.1", messages }).catch((e) => e);
  const models = await client.models.list();
  const runner = client.chat.completions.runTools({ model: "everturn", messages: [{ role: "user", content: "Weather?" }],
    tools: [{ type: "function", function: { name: "weather", parameters, parse: JSON.parse, function: weather } }] });
  const called = await runner.finalContent();
  return { first: first.choices[0].message.content, streamed, final: final.choices[0].message.content,
    tokens: final.usage.total_tokens > 0, parsed: parsed.choices[0].message.parsed ?? JSON.parse(parsed.choices[0].message.content),
    refused: [refused.status, refused.code], models: models.data.map((m) => m.id), called };
}

async function withAI() {
  const { generateText, streamText, jsonSchema, stepCountIs } = from("ai");
  const model = from("@ai-sdk/openai").createOpenAI({ baseURL, apiKey }).chat("everturn");
  const first = await generateText({ model, prompt: "First, ai." });
  const stream = streamText({ model, messages: [{ role: "user", content: "First, ai." },
    { role: "assistant", content: first.text }, { role: "user", content: "Second." }] });
  let streamed = "";
  for await (const part of stream.textStream) streamed += part;
  return { first: first.text, streamed, finish: await stream.finishReason, called: await called(generateText, model, jsonSchema, stepCountIs) };
}

async function withLangChain() {
  const { ChatOpenAI } = from("@langchain/openai");
  const model = new ChatOpenAI({ model: "everturn", apiKey, configuration: { baseURL } });
  const first = await model.invoke([["user", "First, langchain."]]);
  let streamed = "";
  for await (const chunk of await model.stream([["user", "First, langchain."], ["assistant", first.content],
    ["user", "Second."]])) streamed += chunk.content;
  return { first: first.content, streamed };
}

(async () => {
  const print = (client, got) => console.log(JSON.stringify({ client, ...got }));
  print("openai", await withOpenAI("openai"));
  print("openai-6", await withOpenAI("openai-6"));
  print("ai", await withAI());
  print("langchain", await withLangChain());
})().catch((e) => { console.error(e); process.exit(1); });
