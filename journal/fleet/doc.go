// Package fleet is what the workers with one journal share: the reports of the workers that run, and the fleet limits.
//
// Fleet limits bound what all workers together send to a provider, to one of its models, or for a tenant. Each such
// scope has one row, which a worker updates once for all the requests that wait in it, not once for each request. Times
// are the database's.
package fleet
