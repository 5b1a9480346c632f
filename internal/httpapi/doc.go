// Package httpapi serves Everturn over HTTP: sessions, messages, events, requests and decisions, limits and workers. It
// reads and writes through package client only, and holds no state of its own: several servers may run for one journal.
//
// The table in routes.go lists every route with the right that it needs. The OpenAPI document comes from that table and
// from the types of the routes' inputs and outputs.
package httpapi
