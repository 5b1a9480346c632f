// Package pool holds the connections with one server, and keeps the server's health as each tenant's connections show
// it.
//
// There is at most one connection for each Key: the one that a tenant's turns share, or the one that a turn owns with a
// stateful server. A connection passes these states; only Conn.setState changes them:
//
//	Empty → Connecting → Ready → Draining → Closing → Empty
//
// Users, which are calls and lists of tools, may enter a connection that is Ready. A connection that is Draining takes
// no new users and closes when its last user leaves; its key is free for another connection. The Cause of a
// connection's end decides whether the end counts against the server's health. If a connection breaks, its key becomes
// free only when its link is cleaned up, so that the old process exits before the next one starts.
//
// One lock guards the state of a pool. It is never held while the pool calls a link, its host or the log: the pool
// collects these calls and makes them when the lock is released.
package pool
