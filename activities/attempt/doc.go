// Package attempt has what every attempt of an activity needs, whatever it does: a clock that measures the working time
// over all attempts and heartbeats meanwhile, the conversion of errors to Temporal's application errors, waits for a
// journal that is unavailable, and a log that names turn, step and call.
package attempt
