//go:build !mutants

package main

import (
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
)

func addMutants(*flags) {}

func mutate(_ string, _ config.Config, s engine.Journal) engine.Journal { return s }

func mutantOptions(string) []engine.Option { return nil }
