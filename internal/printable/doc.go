// Package printable makes untrusted text safe to store, to send and to print, and shortens it.
package printable
