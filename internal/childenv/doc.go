// Package childenv lists the environment variables that every child process gets.
package childenv
