// Package temporalconn connects to Temporal and prepares a namespace for turns. Workers and the command line share it,
// so that both find the same server by the same rules.
package temporalconn
