package main

import (
	"fmt"

	"github.com/everturn/everturn/tests/replay"
)

func main() { fmt.Println(replay.Missing(replay.Dir)) }
