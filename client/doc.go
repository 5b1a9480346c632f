// Package client starts, follows and controls turns from any Go program. The turns run on workers elsewhere; the
// program needs a connection to Temporal and, to read what turns do, the journal.
//
//	c, err := client.Dial(ctx, cfg, journal)
//	…
//	defer c.Close()
//	t, err := c.Send(ctx, client.SendInput{Message: turn.UserMessage{Text: "Which files are here?"}})
//	…
//	for chunk, err := range c.Follow(ctx, t, -1) {
//		…
//	}
//	result, err := c.Wait(ctx, t)
//
// Every request may be repeated after an error, except Schedules.Create, which then returns ErrExists, and
// Schedules.Trigger, which runs the schedule once more. A message counts once under its ID, and the first decision on a
// request stands. If Temporal or a worker does not answer, a client retries for 30 seconds, or until the deadline of
// ctx; requests about schedules, for ten seconds.
//
// The methods return errors that wrap one of the Err variables. If a turn refused a request, the error also wraps a
// *turn.Error with the code. A client checks no permissions: it can do what its connection and its journal allow.
package client
