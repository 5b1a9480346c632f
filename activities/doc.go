// Package activities implements the port workflows.Activities: everything in a turn that has effects outside the
// workflow. Each method is one activity, such as Begin, Infer, CallTool and Finish. Activities receive references,
// never transcripts, and write everything that matters to the journal before they return, so that an attempt that dies
// loses nothing and causes nothing to be done twice.
//
// This package begins, finishes and delivers turns, records requests and their decisions, and composes the others:
// package completion implements Infer, package call implements CallTool and the activities of subagents, package
// authorize decides whether a call may run, package frozen caches what never changes of a turn, and package attempt has
// what each attempt of an activity needs.
//
// The model, the tools and the journal are interfaces (completion.Model, Tools, Journal). Failures leave as Temporal
// application errors whose type is a turn.Code.
package activities
