// Package loopback hands out addresses of this machine to tests: free ones that stay free, and one without a
// listener.
package loopback
