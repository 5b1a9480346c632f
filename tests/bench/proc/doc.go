// Package proc runs the processes of a benchmark and reads from the kernel what they use: CPU time and the peak of
// resident memory (Linux's /proc; elsewhere both are reported as unknown).
package proc
