// Command worker runs an Everturn worker until it is told to stop. Configuration: agent.toml, the environment, and
// the flags of -h. The first signal drains it, a second one ends it at once.
package main
