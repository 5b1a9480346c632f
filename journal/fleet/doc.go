// Package fleet has what the workers with one journal share: the reports of running workers, and the fleet limits.
//
// Fleet limits bound what all workers together send to a provider, to one of its models, or for a tenant. Each such
// scope has one row in the journal. A worker updates it once for all the requests that wait in the worker, not once for
// each request. All times are those of the database's clock.
package fleet
