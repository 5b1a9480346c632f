//go:build !mutants

package main

import (
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/journal"
)

func addMutants(*flags) {}

func mutate(_ string, _ config.Config, s journal.Store) journal.Store { return s }

func mutantOptions(string) []engine.Option { return nil }
