// Package messages is Anthropic's Messages API. Thinking blocks go back unchanged, in front of the call that they led
// to. One cache_control for the whole request lets the provider place its own breakpoints.
package messages
