// Package skills reads skills, which are instructions for the model in folders, and selects those of a turn. A skill
// never runs: it is text in the prompt. The format is that of agentskills.io.
package skills
