// Package canvas provides the tools with which a model changes files on its session's branch of a git repository: see
// internal/canvas. A call that was cut off runs again, and finds the commit that it has made.
package canvas
