// Package netguard keeps the HTTP requests for one URL at the host that the operator configured: it checks the URL, the
// host of each request, and each address when it is dialled.
package netguard
