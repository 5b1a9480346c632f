// Package loopback hands out addresses of this machine to tests: free ones that stay free, one without a listener, and
// that of a proxy that can reset its connections.
package loopback
