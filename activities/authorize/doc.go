// Package authorize decides whether a tool call may run: by its turn's policy and plan, the taint and the grants of its
// session, and the tools that the workers offer. It decides twice with the same rules: when the model has proposed the
// calls of a step (Permits), and before one of them is claimed (Authorize).
package authorize
