// Package models has a list of models with their wire protocols, context windows, capabilities and prices. It resolves
// the names of models in configurations and requests, and selects models by required capabilities and maximum prices.
//
// The data come from a dated snapshot that is built in, or from a fetched copy of a newer one. The operator's
// descriptions in agent.toml override both. Unknown values stay unknown: a missing price is never 0.
package models

//go:generate go run ./generate
