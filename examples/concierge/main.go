package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/workflows/turn"
)

var yes = flag.Bool("yes", false, "approve every call")

type table struct {
	Restaurant string `json:"restaurant" jsonschema:"the restaurant's name"`
	Seats      int    `json:"seats" jsonschema:"the number of guests"`
}

// inquire asks a restaurant by mail. The mail's ID is the same in each attempt of a call, so the restaurant gets one.
func inquire(ctx context.Context, in table) (string, error) {
	call, _ := engine.CallInfo(ctx)
	return fmt.Sprintf("%s replies to mail %s/%s: welcome from 8 p.m.", in.Restaurant, call.Turn, call.CallID), nil
}

// reserve books for the guest whom the client has named. The model does not know the name.
func reserve(ctx context.Context, in table) (string, error) {
	guest, err := engine.RequestContext[string](ctx)
	return fmt.Sprintf("%d seats at %s are reserved for %s", in.Seats, in.Restaurant, guest), err
}

func main() {
	flag.Parse()
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// run starts a worker in this process and talks to it until the conversation has ended.
func run() (err error) {
	loaded, err := config.Load(config.LoadOptions{Environ: os.Environ(), Overrides: map[string]string{
		"temporal.task_queue": "concierge",                   // the workers of other queues lack these tools
		"policy.allow":        "local/inquire,local/reserve", // and not those that read the files of this folder
	}})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	e, err := engine.New(ctx, loaded.Config, engine.WithTool("reserve", "Reserves a table.", reserve),
		engine.WithTool("inquire", "Asks a restaurant for a table.", inquire, engine.Repeatable(), engine.Taints()))
	if err != nil {
		return err
	}
	worker := make(chan error, 1)
	go func() { worker <- e.Run(ctx); stop() }() // without a worker, no turn ends
	defer func() { stop(); err = errors.Join(err, <-worker, e.Close()) }()
	c, err := client.Open(ctx, loaded.Config)
	if err != nil {
		return err
	}
	defer c.Close()
	return talk(ctx, c)
}

// talk sends two messages to a new session, prints what the model writes, and lists the sessions.
func talk(ctx context.Context, c *client.Client) error {
	in := client.SendInput{Session: client.NewSessionID(), Context: "Ada"}
	for _, in.Message.Text = range []string{"Ask `Leo` for 2 seats: local/inquire.", "Take them: local/reserve, `Leo`, 2."} {
		t, err := c.Send(ctx, in)
		if err != nil {
			return err
		}
		for event, err := range c.Follow(ctx, t, -1) {
			switch {
			case err != nil:
				return err
			case event.Kind == turn.EventPhase, event.Kind == turn.EventTurnCompleted: // the end of a step's text
				fmt.Println()
			case event.Kind == turn.EventTextDelta:
				fmt.Print(event.Text)
			case event.Kind == turn.EventApprovalRequested:
				if err := decide(ctx, c, t.Session, event); err != nil {
					return err
				}
			}
		}
	}
	sessions, err := c.Sessions(ctx, 10)
	for _, s := range sessions {
		fmt.Printf("%s: %d turns, the last one %s\n", s.ID, s.Turns, s.LastTurn.State)
	}
	return err
}

// decide asks the user about a call. It denies one whose arguments are too long for the event to have all of them.
func decide(ctx context.Context, c *client.Client, session string, event turn.Event) error {
	var r turn.Request
	if err := json.Unmarshal(event.Data, &r); err != nil {
		return err
	}
	fmt.Printf("\n%s %s\n%s\nallow it? (y/n) ", r.Tool, r.Arguments, r.Why)
	var answer string
	if !*yes {
		_, _ = fmt.Scanln(&answer)
	}
	send := c.Deny
	if (*yes || answer == "y") && int(r.ArgumentsBytes) <= len(r.Arguments) {
		send = c.Approve
	}
	_, err := send(ctx, client.DecideInput{Session: session, Turn: event.Turn, Request: r.ID, ArgumentsHash: r.ArgumentsHash})
	return err
}
