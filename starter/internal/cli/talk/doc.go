// Package talk holds the commands that send messages and follow, show and stop turns.
package talk
