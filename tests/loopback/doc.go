// Package loopback hands out addresses of this machine to tests: some that are free and stay so, and one where nobody listens.
package loopback
