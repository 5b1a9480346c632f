// Package nearest finds the name that a misspelled name probably means.
package nearest
