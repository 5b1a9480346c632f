// Package messages implements Anthropic's Messages API. Thinking blocks are sent back unchanged, before the call to
// which they led. One cache_control for the whole request lets the provider choose the cache breakpoints.
package messages
