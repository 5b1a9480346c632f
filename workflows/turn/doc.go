// Package turn is the domain of Everturn: what an agent turn is, and every decision about one that needs no effects.
//
// A turn is one user message carried to its answer. It walks through phases (Start, BuildPrompt, LlmInfer, ParseAction,
// CallTool, Done), each a type whose methods are the only legal next steps. The pure decisions surround the phases: the
// limits (may the turn continue?), the policy (may this tool be called, and what follows an error?), the prompt plan
// (which slice of the transcript does the model see?), and the action parser (what does the model ask for?).
//
// Everything here is a pure function of its arguments: no clock, no randomness, no environment, no Temporal. Workflow
// code may call all of it, and a replay gets the same result.
package turn
