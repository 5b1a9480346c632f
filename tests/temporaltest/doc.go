// Package temporaltest starts the real Temporal server that tests run against, on ports that no other program takes by
// chance.
package temporaltest
