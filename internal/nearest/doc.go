// Package nearest finds the name that a misspelled one probably means.
package nearest
