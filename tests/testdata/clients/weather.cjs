// A function that clients bring, and how the AI SDK runs it.
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };
const weather = ({ city }) => `${city}: ${city.length} degrees`;

async function called(generateText, model, jsonSchema, stepCountIs) {
  const { text } = await generateText({ model, prompt: "Weather?", stopWhen: stepCountIs(3),
    tools: { weather: { description: "The weather.", inputSchema: jsonSchema(parameters), execute: async (c) => weather(c) } } });
  return text;
}

module.exports = { parameters, weather, called };
