// Package fleet computes what the workers with one journal share: the fleet limits. It also has the form in which a
// worker reports that it runs. It does no input or output: package journal keeps the rows.
//
// Fleet limits bound what all workers together send to a provider, to one of its models, or for a tenant. Each such
// scope has one row in the journal. A worker updates it once for all the requests that wait in the worker, not once for
// each request. All times are those of the database's clock.
package fleet
