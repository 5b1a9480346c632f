// Package activities implements the port workflows.Activities: everything in a turn that has effects outside the
// workflow. Each method is one activity, such as Begin, Infer, CallTool and Finish. Activities receive references,
// never transcripts, and write everything that matters to the journal before they return, so that an attempt that dies
// loses nothing and causes nothing to be done twice.
//
// The model, the tools and the journal are interfaces (Model, Tools, Journal). Failures leave as Temporal
// application errors whose type is a turn.Code.
package activities
