// Package proc starts the processes of tests so that none outlives its test program.
package proc
