package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/workflows/turn"
)

// search holds the arguments of find_table. The model sees the jsonschema tags.
type search struct {
	Guests int `json:"guests" jsonschema:"the number of guests"`
}

// table is the result of find_table. The model gets it as JSON.
type table struct {
	ID    string `json:"id"`
	Seats int    `json:"seats"`
}

// booking holds the arguments of book_table.
type booking struct {
	Table string `json:"table" jsonschema:"a table's id"`
	Name  string `json:"name" jsonschema:"the name of the guest"`
}

var tables = []table{{ID: "window", Seats: 2}, {ID: "garden", Seats: 6}}

// findTable is the tool find_table: it returns the first table with enough seats.
func findTable(_ context.Context, in search) (table, error) {
	for _, t := range tables {
		if t.Seats >= in.Guests {
			return t, nil
		}
	}
	return table{}, fmt.Errorf("no table has %d seats", in.Guests) // the model gets this text
}

func book(_ context.Context, in booking) (string, error) {
	return "booked the table " + in.Table + " for " + in.Name, nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	question := "Is there a table for 4? Use find_table."
	if len(os.Args) > 1 {
		question = strings.Join(os.Args[1:], " ")
	}
	if err := run(ctx, question); err != nil {
		log.Fatal(err)
	}
}

// run starts a worker in this process, sends the question to a new session and prints the answer. The worker stops when
// run returns.
func run(ctx context.Context, question string) (err error) {
	loaded, err := config.Load(config.LoadOptions{Environ: os.Environ()}) // agent.toml, if there is one
	if err != nil {
		return err
	}
	e, err := engine.New(ctx, loaded.Config, engine.WithEnviron(os.Environ()),
		engine.WithTool("find_table", "Finds a free table.", findTable, engine.LocalActivity(), engine.ReadOnly()),
		engine.WithTool("book_table", "Books a table.", book, engine.Risk(turn.RiskHigh)))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	worker := make(chan error, 1)
	go func() { worker <- e.Run(ctx); stop() }() // without a worker, the turn does not end
	defer func() {
		stop()
		err = errors.Join(err, <-worker, e.Close())
	}()

	c, err := client.Open(ctx, loaded.Config)
	if err != nil {
		return err
	}
	defer c.Close()
	t, err := c.Send(ctx, client.SendInput{Message: turn.UserMessage{Text: question}})
	if err != nil {
		return err
	}
	result, err := c.Wait(ctx, t)
	if err != nil {
		return err
	}
	fmt.Println(result.Answer)
	return nil
}
