// Package schedule holds the commands that send messages on a schedule, which Temporal keeps.
package schedule
