// Package sessionmodel is an in-memory model of a session as its users know it: what was sent, decided and stopped, and what
// must hold afterwards of everything that the journal shows about it. Tests drive a real session and the model with the
// same generated operations, and then the model checks the evidence.
//
// A message says what its turn does: Agent is a scripted model that reads the actions from it.
package sessionmodel
