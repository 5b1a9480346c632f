// Package models knows which models there are: their wire protocols, context windows, capabilities and prices. It
// resolves the names in configurations and requests, and selects a model by what it must do and may cost.
//
// The data are a dated snapshot, a fetched copy of a newer one, and the operator's own words in agent.toml, which win.
// What is not known stays unknown: a price that is missing is never 0.
package models

//go:generate go run ./generate
