// Command temporal starts a turn with nothing but Temporal's client and JSON, as a program in any other language would:
// it imports no package of Everturn. docs/temporal-api.md describes the JSON. A worker must run.
package main
