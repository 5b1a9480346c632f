// Package outage keeps a process from sending requests to a service that is known to be down, such as a model's
// provider or the journal. During an outage, one request at a time probes whether the service is back, with growing
// pauses; all other requests are told how long to wait. When a request succeeds, the outage is over.
package outage
