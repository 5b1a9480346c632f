// Package branch holds the commands that fork, export and import sessions.
package branch
