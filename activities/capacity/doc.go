// Package capacity keeps the requests of a worker to model providers within the fleet limits: see package fleet.
//
// A Limiter collects the requests that wait in its worker and asks the journal for capacity for all of them in one
// transaction. For a request without limits it only reads the journal, at most a few times a second.
package capacity
