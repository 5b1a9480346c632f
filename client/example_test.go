package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/workflows/turn"
)

// Example starts a turn, follows it and waits for its end. It needs a Temporal server and a worker; examples/client is
// a complete program.
func Example() {
	ctx := context.Background()
	loaded, err := config.Load(config.LoadOptions{Environ: os.Environ()})
	if err != nil {
		log.Fatal(err)
	}
	journal, err := engine.OpenJournal(ctx, loaded.Config)
	if err != nil {
		log.Fatal(err)
	}
	defer journal.Close()
	c, err := client.Dial(ctx, loaded.Config, journal)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	t, err := c.Send(ctx, client.SendInput{Session: "research", Message: turn.UserMessage{Text: "And the tests?"}})
	if err != nil {
		log.Fatal(err)
	}
	for chunk, err := range c.Follow(ctx, t, -1) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(chunk.Text)
	}
	result, err := c.Wait(ctx, t)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.State, result.FinishReason)
}

// ExampleClient_Approve approves every pending tool call of a session, with the arguments that it printed.
func ExampleClient_Approve() {
	ctx, c := context.Background(), client.New(nil, client.Options{}) // in a program: client.Dial
	pending, err := c.Pending(ctx, client.PendingInput{Session: "research"})
	if err != nil {
		log.Fatal(err)
	}
	for _, request := range pending {
		if request.Kind != turn.RequestApproval {
			continue
		}
		fmt.Println(request.Tool, request.Arguments)
		_, err := c.Approve(ctx, client.DecideInput{
			Session: request.Session, Turn: request.Turn, Call: request.ID,
			ArgumentsHash: request.ArgumentsHash, By: "ann",
		})
		var decided *client.DecidedError
		if errors.As(err, &decided) {
			fmt.Println("decided already:", decided.Decision.Status)
		} else if err != nil {
			log.Fatal(err)
		}
	}
}
