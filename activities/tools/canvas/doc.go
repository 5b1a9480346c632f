// Package canvas lets tools act on the canvases of sessions: it gives each call the tree of its session (see
// internal/workspace), and provides the tools that show a canvas, take that of a subagent, and merge it.
package canvas
