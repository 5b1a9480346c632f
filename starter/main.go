package main

import (
	"os"

	"github.com/everturn/everturn/starter/internal/cli"
)

func main() { os.Exit(cli.Main()) }
