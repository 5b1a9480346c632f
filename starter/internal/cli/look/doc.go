// Package look holds the commands that show sessions.
package look
