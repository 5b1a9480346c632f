package engine_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"time"

	temporal "go.temporal.io/sdk/client"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/workflows/turn"
)

// check exits if err is an error.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

type city struct {
	Name string `json:"name" jsonschema:"a city's name"`
}

func weather(_ context.Context, in city) (string, error) { return "sunny in " + in.Name, nil }

// Example is a program that runs a worker with a typed tool. It needs a Temporal server; TestAnEmbeddedToolIsCalled in
// the tests package runs the same code against one.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	loaded, err := config.Load(config.LoadOptions{Environ: os.Environ()}) // agent.toml
	check(err)
	e, err := engine.New(ctx, loaded.Config, engine.WithEnviron(os.Environ()),
		engine.WithTool("weather", "Tells the weather of a city.", weather, engine.Repeatable()))
	check(err)
	defer e.Close()
	check(e.Run(ctx))
}

type payment struct {
	Account string `json:"account" jsonschema:"the recipient's account"`
	Cents   int64  `json:"cents" jsonschema:"the amount"`
}

type receipt struct {
	ID string `json:"id"`
}

// A tool that moves money: its calls need an approval under the default policy, and none is ever repeated.
func ExampleWithTool() {
	pay := func(ctx context.Context, in payment) (receipt, error) {
		if in.Cents <= 0 {
			return receipt{}, fmt.Errorf("%d cents cannot be paid", in.Cents) // the model gets the text
		}
		call, _ := engine.CallInfo(ctx)
		return receipt{ID: call.Turn + "/" + call.CallID}, nil // a key by which a bank recognizes a repeated payment
	}
	e, err := engine.New(context.Background(), config.Default(),
		engine.WithLogger(slog.Default()),
		engine.WithTool("pay", "Pays an amount to an account.", pay, engine.Risk(turn.RiskHigh), engine.Timeout(time.Minute)))
	check(err)
	defer e.Close()
}

// A program that is a worker and a client: both use one journal.
func ExampleEngine_Journal() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	e, err := engine.New(ctx, config.Default(), engine.WithEnviron(os.Environ()))
	check(err)
	defer e.Close()
	go func() { check(e.Run(ctx)) }()
	connection, err := temporal.DialContext(ctx, temporal.Options{})
	check(err)
	defer connection.Close()
	c := client.New(connection, client.Options{Journal: e.Journal()})
	t, err := c.Send(ctx, client.SendInput{Message: turn.UserMessage{Text: "Hello."}})
	check(err)
	result, err := c.Wait(ctx, t)
	check(err)
	fmt.Println(result.Answer)
}
