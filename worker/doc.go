// Command worker runs an Everturn worker until it is told to stop. Configuration: agent.toml, the environment, and
// the flags of -h. The first signal drains it, a second one ends it at once.
//
// Exit codes are the starter's: 0 where it was told to stop, 3 for usage or configuration, 4 for credentials, 5 where
// Temporal is not reached, 1 for everything else.
package main
