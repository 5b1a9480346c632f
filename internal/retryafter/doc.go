// Package retryafter reads from an HTTP response how long the client must wait before it retries.
package retryafter
