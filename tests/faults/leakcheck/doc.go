// Package leakcheck measures what a process holds while it lives (memory, files, threads and children) and judges
// whether that grows. The figures come from Linux's /proc; our own processes may also report their goroutines and live
// heap.
//
// Resident memory of a Go program is a sawtooth: it rises between collections and falls when the runtime returns pages.
// A leak lifts the sawtooth as a whole. So the series is cut into windows, only the lowest value of each window counts,
// and a straight line is fitted to those values by least squares. A warm-up is left out: caches fill and the heap finds
// its size.
package leakcheck
