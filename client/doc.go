// Package client starts, follows and controls turns from any Go program. The turns run on workers elsewhere; the
// program needs a connection to Temporal and, to read what turns do, the journal. Open opens both. This program asks a
// question and prints the answer as the model writes it; check exits if its argument is an error:
//
//	func main() {
//		ctx := context.Background()
//		loaded, err := config.Load(config.LoadOptions{Environ: os.Environ()}) // agent.toml
//		check(err)
//		c, err := client.Open(ctx, loaded.Config)
//		check(err)
//		defer c.Close()
//		t, err := c.Send(ctx, client.SendInput{Message: turn.UserMessage{Text: "Which files are here?"}})
//		check(err)
//		for event, err := range c.Follow(ctx, t, -1) {
//			check(err)
//			if event.Kind == turn.EventTextDelta {
//				fmt.Print(event.Text)
//			}
//		}
//		result, err := c.Wait(ctx, t)
//		check(err)
//		fmt.Println(result.State, result.FinishReason)
//	}
//
// # Sessions and turns
//
// A session is a conversation; its ID is the caller's choice. Send starts a turn, or merges the message into the turn
// that is running. Follow yields what the turn does, Wait waits for its end, and Result, Find, Sessions and
// RunningSessions read without waiting. Stop lets a turn end in an orderly way, Terminate ends it at once. Fork creates
// a session that shares the messages of another one up to a point. Schedules send messages at given times.
//
// # The journal
//
// Journal returns the client's journal: the messages of a session, the inferences and calls of a turn with what they
// cost, the limits of the fleet, the published tools, exports. A program that only reads it uses OpenJournal, which
// does not connect to Temporal.
//
// # Requests
//
// A turn that needs a permission, an answer or a response waits until it gets one. Pending lists these requests, and
// Follow yields an event for each: turn.EventApprovalRequested, or turn.EventQuestionAsked for the others. Its data is
// a turn.Request. Approve and Deny decide about a tool call, Answer answers a question of the model, and Respond
// responds to an elicitation of an MCP server.
//
// # Errors
//
// The methods return errors that wrap one of the Err variables. If a turn refused a request, the error also wraps a
// *turn.Error with the code. A client checks no permissions: it can do what its connection and its journal allow.
//
// Every request may be repeated after an error, except Schedules.Create, which then returns ErrExists, and
// Schedules.Trigger, which runs the schedule once more. A message counts once under its ID, and the first decision on a
// request stands. If Temporal or a worker does not answer, a client retries for 30 seconds, or until the deadline of
// ctx; requests about schedules, for ten seconds.
package client
