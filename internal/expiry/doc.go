// Package expiry has timeouts that allow for a process that was suspended while they ran.
//
// After a process was stopped (SIGSTOP, a paused container, a starved machine), all its timers expire at once,
// although the answers that they wait for may already be in its pipes and sockets. A timer of this package that fires
// much too late therefore waits a moment longer, so that the process can read these answers first.
package expiry
