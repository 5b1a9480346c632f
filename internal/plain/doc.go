// Package plain makes text of strangers safe to store, to send and to print, and shortens it.
package plain
