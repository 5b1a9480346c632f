// Package sessionmodel is an in-memory model of a session as its users know it: what was sent, decided and stopped.
// Tests drive a real session and the model with the same generated operations. Afterwards package check compares the
// ledgers, of which the model keeps those of the users, and the model adds what a session without faults must do
// besides: order, turns of their own, and no call that was allowed and did not run.
//
// A message says what its turn does: Agent is a scripted model that reads the actions from it.
package sessionmodel
