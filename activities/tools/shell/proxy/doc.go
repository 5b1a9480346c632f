// Package proxy lets commands reach some hosts and no others: it is an HTTP proxy, also for CONNECT, that dials only
// the hosts of a list, at addresses of the public internet.
package proxy
