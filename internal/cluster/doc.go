// Package cluster connects to a Temporal cluster and prepares a namespace for turns. Workers and the command line share
// it, so that both find the same cluster by the same rules.
package cluster
