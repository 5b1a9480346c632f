// Package responses is OpenAI's Responses API. The provider stores nothing (store is false): each request holds the
// whole conversation, and the model's reasoning as the encrypted items that it sent before.
package responses
