// Package capacity keeps the requests of a worker to model providers within the fleet limits: see journal.FleetLimits.
//
// A Limiter collects the requests that wait in its worker and asks the journal for all of them in one transaction. A
// request without limits costs a read of the journal, at most a few times a second.
package capacity
