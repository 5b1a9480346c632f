// Package chat is OpenAI's Chat Completions, which most providers offer. Requests have go-openai's types; the responses
// are read by the package itself, because providers vary the types of fields and add fields of their own.
//
// Some providers need their own fields back, which go-openai's types lack: Gemini extra_content (its thought
// signatures), OpenRouter reasoning_details, DeepSeek and Kimi reasoning_content. They are added to the request's JSON,
// like audio.
package chat
