// Package session is a model of a session as its users know it, in memory: what was sent, what was decided, what was
// stopped, and what has to hold afterwards of everything that can be asked about it. Tests drive a real session and the
// model with the same generated operations, and then have the model look at the evidence.
//
// What a turn does is written in its message: Agent is a scripted model that reads it there.
package session
