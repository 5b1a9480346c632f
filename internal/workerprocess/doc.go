// Package workerprocess runs a worker as a process. The commands worker and everturn worker use it.
package workerprocess
