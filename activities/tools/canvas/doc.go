// Package canvas provides the tools with which a model changes files on its session's branch of a git repository: see
// internal/canvas. An interrupted call is repeated; if it has already made its commit, it finds that commit.
package canvas
