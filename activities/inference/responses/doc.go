// Package responses implements OpenAI's Responses API. The provider stores nothing (store is false): each request
// contains the whole conversation, including the encrypted reasoning items that the provider sent before.
package responses
