package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
)

func main() {
	queue := flag.String("task-queue", "everturn", "the task queue that the workers poll")
	session := flag.String("session", "research-1", "the session, which is also the workflow's ID")
	text := flag.String("text", "Which files are here?", "the message")
	flag.Parse()
	if err := run(context.Background(), *queue, *session, *text); err != nil {
		log.Fatal(err)
	}
}

// run starts a turn of the session with the message text, waits for its result and prints the result as JSON.
func run(ctx context.Context, queue, session, text string) error {
	options, err := envconfig.LoadDefaultClientOptions() // TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, …
	if err != nil {
		return err
	}
	c, err := client.DialContext(ctx, options)
	if err != nil {
		return err
	}
	defer c.Close()
	turn, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: session, TaskQueue: queue, WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true, // otherwise a running turn would swallow the message
	}, "Turn", map[string]any{"message": map[string]any{"id": "m-1", "text": text}})
	if err != nil {
		return err
	}
	// The result is that of this turn, even if the session gets other messages meanwhile. The error of a failed turn is an
	// ApplicationError whose type is an error code and whose details are the result.
	var result map[string]any
	if err := turn.Get(ctx, &result); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, result["state"], result["finish_reason"])
	return json.NewEncoder(os.Stdout).Encode(result)
}
