// Package vitals measures what a process holds while it lives, memory, files, threads and children, and judges whether
// that grows. The figures come from Linux's /proc; a process of ours may report its goroutines and its live heap besides.
//
// Resident memory of a Go program is a saw: it rises between collections and falls when the runtime gives pages back. A
// leak lifts the saw as a whole. So a series is cut into windows, of each only the lowest value counts, and a straight
// line is laid through those by least squares. A warm-up is left out: caches fill and the heap finds its size.
package vitals
