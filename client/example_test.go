package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/workflows/turn"
)

// The examples need a Temporal server and a worker. examples/client is a complete program.

// check exits if err is an error.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// open returns a client for the configuration of the working folder. The program closes it.
func open(ctx context.Context) *client.Client {
	loaded, err := config.Load(config.LoadOptions{Environ: os.Environ()})
	check(err)
	c, err := client.Open(ctx, loaded.Config)
	check(err)
	return c
}

// Example starts a turn, follows it and waits for its end.
func Example() {
	ctx := context.Background()
	loaded, err := config.Load(config.LoadOptions{Environ: os.Environ()}) // agent.toml
	check(err)
	c, err := client.Open(ctx, loaded.Config)
	check(err)
	defer c.Close()
	t, err := c.Send(ctx, client.SendInput{Message: turn.UserMessage{Text: "Which files are here?"}})
	check(err)
	for event, err := range c.Follow(ctx, t, -1) {
		check(err)
		if event.Kind == turn.EventTextDelta {
			fmt.Print(event.Text)
		}
	}
	result, err := c.Wait(ctx, t)
	check(err)
	fmt.Println(result.State, result.FinishReason)
}

// A program that may crash between Send and the end of the turn chooses the message's ID: Send with the same ID never
// asks twice.
func ExampleClient_Send() {
	ctx := context.Background()
	c := open(ctx)
	defer c.Close()
	t, err := c.Send(ctx, client.SendInput{
		Session: "invoice-4711",
		Message: turn.UserMessage{ID: "invoice-4711/summary", Text: "Summarize the invoice in inbox/4711.txt."},
	})
	switch {
	case errors.Is(err, client.ErrUnreachable), errors.Is(err, client.ErrNoWorker):
		fmt.Println("try again later:", err)
		return
	case err != nil:
		log.Fatal(err)
	}
	result, err := c.Wait(ctx, t)
	check(err)
	fmt.Println(result.Answer)
}

// A follower that lost its connection resumes after the last event that it has seen.
func ExampleClient_Follow() {
	ctx := context.Background()
	c := open(ctx)
	defer c.Close()
	t, err := c.Find(ctx, "research", "") // the session's last turn
	check(err)
	const seen = 41
	for event, err := range c.Follow(ctx, t, seen) {
		check(err)
		fmt.Println(event.Index, event.Kind, event.Text)
	}
}

// ExampleClient_Approve approves every pending tool call of a session, with the arguments that it printed.
func ExampleClient_Approve() {
	ctx := context.Background()
	c := open(ctx)
	defer c.Close()
	pending, err := c.Pending(ctx, client.PendingInput{Session: "research"})
	check(err)
	for _, request := range pending {
		if request.Kind != turn.RequestApproval {
			continue
		}
		fmt.Println(request.Tool, request.Arguments)
		_, err := c.Approve(ctx, client.DecideInput{
			Session: request.Session, Turn: request.Turn, Request: request.ID,
			ArgumentsHash: request.ArgumentsHash, By: "ann",
		})
		var decided *client.DecidedError
		if errors.As(err, &decided) {
			fmt.Println("decided already:", decided.Decision.Status)
		} else {
			check(err)
		}
	}
}

// ExampleClient_Answer answers a question of the model, and accepts an elicitation of an MCP server.
func ExampleClient_Answer() {
	ctx := context.Background()
	c := open(ctx)
	defer c.Close()
	pending, err := c.Pending(ctx, client.PendingInput{Session: "research"})
	check(err)
	for _, request := range pending {
		switch request.Kind {
		case turn.RequestQuestion:
			err = c.Answer(ctx, client.DecideInput{
				Session: request.Session, Turn: request.Turn, Request: request.ID, Text: "The second one.",
			})
		case turn.RequestElicitation:
			err = c.Respond(ctx, client.DecideInput{
				Session: request.Session, Turn: request.Turn, Request: request.ID,
				Response: &turn.ElicitationResponse{
					Action: turn.ElicitationAccept, Content: json.RawMessage(`{"email":"ann@example.com"}`),
				},
			})
		}
		check(err)
	}
}

// ExampleClient_Stop stops a turn and waits until it has ended. What it did is kept.
func ExampleClient_Stop() {
	ctx := context.Background()
	c := open(ctx)
	defer c.Close()
	t, err := c.Find(ctx, "research", "")
	check(err)
	if err := c.Stop(ctx, t.Session); errors.Is(err, client.ErrNotRunning) {
		fmt.Println("it has ended already")
	} else {
		check(err)
	}
	result, err := c.Wait(ctx, t)
	check(err)
	fmt.Println(result.State)
}

// ExampleClient_Fork asks another question from the middle of a conversation, which does not change.
func ExampleClient_Fork() {
	ctx := context.Background()
	c := open(ctx)
	defer c.Close()
	fork, err := c.Fork(ctx, client.ForkInput{Session: "research", At: 4})
	check(err)
	_, err = c.Send(ctx, client.SendInput{Session: fork.ID, Message: turn.UserMessage{Text: "And in French?"}})
	check(err)
}

// ExampleSchedules_Create has a report written on every working day, in a session of its own each.
func ExampleSchedules_Create() {
	ctx := context.Background()
	c := open(ctx)
	defer c.Close()
	schedule, err := c.Schedules().Create(ctx, client.ScheduleInput{
		Name: "report", Text: "Write the daily report.", Cron: "0 9 * * 1-5", Zone: "Europe/Berlin",
		CatchUp: time.Hour, Description: "on working days at nine",
	})
	if errors.Is(err, client.ErrExists) {
		return
	}
	check(err)
	fmt.Println(schedule.Next)
}
