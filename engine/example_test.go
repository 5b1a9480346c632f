package engine_test

import (
	"context"
	"log"
	"os"
	"os/signal"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
)

type city struct {
	Name string `json:"name" jsonschema:"a city's name"`
}

func weather(_ context.Context, in city) (string, error) { return "sunny in " + in.Name, nil }

// Example is a program that runs a worker with a typed tool. It needs a Temporal server; TestAnEmbeddedToolIsCalled in
// the tests package runs the same code against one.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	loaded, err := config.Load(config.LoadOptions{Environ: os.Environ()})
	if err != nil {
		log.Fatal(err)
	}
	e, err := engine.New(ctx, loaded.Config, engine.WithTool("weather", "Tells the weather of a city.", weather, engine.LocalActivity()))
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()
	log.Print(e.Run(ctx))
}
