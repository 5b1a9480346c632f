// Package chat implements OpenAI's Chat Completions, which most providers offer. Requests have go-openai's types. For
// responses the package has types of its own, because providers vary the types of fields and add fields.
//
// Some providers need fields of their own back, which go-openai's types lack: Gemini extra_content (its thought
// signatures), OpenRouter reasoning_details, DeepSeek and Kimi reasoning_content. The package adds them to the
// request's JSON, like audio.
package chat
