// Package turn is the domain of Everturn: what an agent turn is, and every
// decision that can be made about one without touching the world.
//
// A turn is one user request carried to its answer. It walks through phases
// (Start, BuildPrompt, LlmInfer, ParseAction, CallTool, Done), each a type whose
// methods are the only legal next steps. Around the phases stand the pure
// decisions: the guard (may it go on?), the policy (may this tool be called, and
// what follows an error?), the prompt plan (which slice of the transcript does
// the model see?), the action parser (what did the model ask for?).
//
// Everything here is a pure function of its arguments and uses the standard
// library only: no clock, no randomness, no environment, no Temporal. Workflow
// code may call all of it, and a replay comes to the same result.
package turn
