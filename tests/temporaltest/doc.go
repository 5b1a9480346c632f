// Package temporaltest brings up the real Temporal server that tests run against, on ports that nobody else takes by chance.
package temporaltest
