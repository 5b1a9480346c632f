// Package skills reads skills, which are folders with instructions for the model, and selects the skills of a turn. A
// skill is never executed: it is text in the prompt. The format is that of agentskills.io.
package skills
