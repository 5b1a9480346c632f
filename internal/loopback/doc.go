// Package loopback recognizes addresses of this machine, without a DNS query.
package loopback
