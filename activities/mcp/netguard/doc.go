// Package netguard restricts HTTP requests to the host that the operator configured. It checks the configured URL, the
// host of each request, and each address when it is dialled.
package netguard
