// Package modelconfig returns the models that a configuration offers: those of its providers, and the ones that a turn
// may use.
package modelconfig
