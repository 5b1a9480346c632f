// Package expiry ends waits after a time, with regard to a process that was frozen meanwhile.
//
// A stopped process (SIGSTOP, a paused container, a starved machine) wakes up with all its timers expired at once, while
// the answers that have arrived wait in pipes and sockets. A wait of this package therefore goes on for a moment, in which
// they are read, if its end comes much later than it should.
package expiry
