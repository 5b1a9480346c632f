// Package outage keeps a process from asking something that is known to be down, such as a model's provider or the
// journal. While it is down, one request at a time asks whether it is back, with growing pauses; the others are told
// when to come again. When one of them succeeds, all may go on.
package outage
