// Package activities is where a turn touches the world: it implements the port workflows.Activities. Each method is
// one activity: Begin, Infer, CallTool, Finish. They get references, never transcripts, and write everything that
// matters to the journal before they return, so that an attempt that dies leaves nothing to be lost or done twice.
//
// The model, the tools and the journal arrive as interfaces (Model, Tools, journal.Journal). Failures leave as
// Temporal application errors named by turn.Code, made in one place.
package activities
