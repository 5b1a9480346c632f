// Command worker runs an Everturn worker until a signal stops it, as everturn worker does. Its configuration comes from
// agent.toml, the environment, and the flags that -h lists. The first signal drains the worker, a second one ends it at
// once.
//
// Exit codes match everturn's: 0 after a signal, 3 for usage or configuration errors, 4 for missing credentials, 5
// if Temporal is unreachable, 1 for all other errors. With --healthcheck it asks the running worker whether it is
// ready, and exits with 0 or 1.
package main
