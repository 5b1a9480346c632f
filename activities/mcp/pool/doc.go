// Package pool holds the connections with one server, and what each tenant's connections say about the server's health.
//
// There is at most one connection for each Key: the one that a tenant's turns share, or the one that a turn owns with a
// stateful server. A connection passes these states, and Conn.to is the only way from one to another:
//
//	Empty → Connecting → Ready → Draining → Closing → Empty
//
// Users enter a connection that is Ready. A connection that is Draining takes no new users and closes with its last
// one; its key is free for another connection. The Cause of its end decides what the end says about the server. If a
// connection breaks, its key is free only when its link is cleaned up, so that the old process exits before the next
// one starts.
//
// One lock guards the state of a pool. It is never held while the pool calls a link, its host or the log: these calls
// are collected, and made when the lock is released.
package pool
