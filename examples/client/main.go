package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/workflows/turn"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, "Which files are here, and what is this project about?"); err != nil {
		log.Fatal(err)
	}
}

// run sends the question to a new session, prints the answer as it arrives and, at the end, how the turn ended.
func run(ctx context.Context, question string) error {
	loaded, err := config.Load(config.LoadOptions{Environ: os.Environ()})
	if err != nil {
		return err
	}
	c, err := client.Open(ctx, loaded.Config)
	if err != nil {
		return err
	}
	defer c.Close()

	t, err := c.Send(ctx, client.SendInput{Message: turn.UserMessage{Text: question}})
	if err != nil {
		return err
	}
	for event, err := range c.Follow(ctx, t, -1) {
		switch {
		case err != nil:
			return err
		case event.Kind == turn.EventTextDelta:
			fmt.Print(event.Text)
		case event.Kind == turn.EventApprovalRequested:
			if err := decide(ctx, c, t.Session, event); err != nil {
				return err
			}
		}
	}
	result, err := c.Wait(ctx, t)
	if err != nil {
		return err
	}
	fmt.Printf("\n%s (%s), %d steps, %d tokens\n", result.State, result.FinishReason, result.Steps, result.Usage.Total())
	return nil
}

// decide asks on the terminal whether a tool call may run, and sends the decision: every answer but y denies the call.
// If the call was decided elsewhere meanwhile, decide prints that decision, which stands.
func decide(ctx context.Context, c *client.Client, session string, event turn.Event) error {
	var request turn.Request
	if err := json.Unmarshal(event.Data, &request); err != nil {
		return err
	}
	fmt.Printf("\n%s %s\nallow it? (y/n) ", request.Tool, request.Arguments)
	var answer string
	if _, err := fmt.Scanln(&answer); err != nil {
		return err
	}
	// An event has only the beginning of long arguments. A call is denied if the user has not seen all of them.
	complete := int(request.ArgumentsBytes) <= len(request.Arguments)
	_, err := c.Decide(ctx, client.DecideInput{
		Session: session, Turn: event.Turn, Request: request.ID, Allow: answer == "y" && complete,
		ArgumentsHash: request.ArgumentsHash, By: "the example",
	})
	if errors.Is(err, client.ErrAlreadyDecided) {
		fmt.Println(err)
		return nil
	}
	return err
}
