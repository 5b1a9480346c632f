// Package retryafter reads how long an HTTP server asks a client to wait.
package retryafter
