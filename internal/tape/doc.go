// Package tape records the answers of models in files, and replays them offline, without an API key and always in the
// same way.
package tape
