package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/plan"
)

// turnPlan is a turn as the provider will play it.
type turnPlan struct {
	session, id, text string
	steps             [][]callPlan
	final             string
	pace              time.Duration // between the words of its answer
	stop              time.Duration // after its acknowledgement; 0: it is not stopped
	after             bool          // it starts its own turn, although another turn runs
	patient           bool          // see patientCall
	plan              plan.Confirm  // it works by a plan, of which this is confirmed
	written           bool          // the plan makes the calls after the first one
}

// callPlan is a call that the model makes. key names it in the tool's ledger; take is how many milliseconds it works on
// each side of its effect.
type callPlan struct {
	tool, key, block string
	script           string // for a command
	take             int
	times            int  // for tools that repeat something: ask, or report progress
	aside            bool // for helper: in the background
}

// The tools of the schedules, by their wire names: append of a server whose calls are not repeatable, of one whose
// calls are, and of one that is also quick; and two without effects.
const (
	once    = "mcp_once_append"
	again   = "mcp_again_append"
	quick   = "mcp_quick_append"
	echo    = "mcp_once_echo"
	environ = "mcp_once_environ"
	// confirm asks for confirmation repeatedly and flood reports progress repeatedly; both append at the end. remember
	// belongs to a server that keeps state.
	confirm  = "mcp_once_confirm"
	flood    = "mcp_once_progress"
	remember = "mcp_keeper_remember"
)

// helper is the tool of an agent; the key of such a call is the text of another plan, which the agent plays.
const helper = "agent_helper"

// askUser is the tool with which the model asks the user; the key of such a call is the question.
const askUser = "ask_user"

// The prefixes of the arguments of a call that needs approval, as the configuration's rule defines it, and of one that
// the schedule denies.
const (
	askMark  = "guarded-"
	denyMark = askMark + "unwanted-"
)

var tools = []string{once, again, quick, once, again, quick, echo, environ}

// randomTurn makes a turn of up to three steps with up to three calls each.
func randomTurn(rng *rand.Rand, session string, n int) turnPlan {
	t := newTurn(rng, session, n)
	for range rng.IntN(4) {
		t.add(1+rng.IntN(3), func(int) string { return tools[rng.IntN(len(tools))] })
	}
	return t
}

func newTurn(rng *rand.Rand, session string, n int) turnPlan {
	id := fmt.Sprintf("%s-m%d", session, n)
	words := []string{"The", "answer", "to", id, "is"}
	for range 3 + rng.IntN(6) {
		words = append(words, fmt.Sprint(rng.IntN(1000)))
	}
	return turnPlan{session: session, id: id, text: "Question " + id + "?", final: strings.Join(words, " ") + "."}
}

// add appends a step of n calls.
func (t *turnPlan) add(n int, tool func(i int) string) {
	step := make([]callPlan, n)
	for i := range step {
		step[i] = callPlan{tool: tool(i), key: fmt.Sprintf("%s.%d.%d", t.id, len(t.steps)+1, i)}
	}
	t.steps = append(t.steps, step)
}

// calls returns how many calls the turn makes.
func (t *turnPlan) calls() int {
	n := 0
	for _, step := range t.steps {
		n += len(step)
	}
	return n
}

func (c callPlan) arguments() string {
	switch c.tool {
	case environ:
		return "{}"
	case stroke:
		return fmt.Sprintf(`{"path":%q,"content":%q}`, c.key+".md", c.key)
	case planTool, stepTool:
		return c.key
	case command, startJob:
		return fmt.Sprintf(`{"command":%q}`, "sh -c '"+c.script+"'")
	case helper:
		if c.aside {
			return fmt.Sprintf(`{"task":%q,"background":true}`, c.key)
		}
		return fmt.Sprintf(`{"task":%q}`, c.key)
	case askUser:
		return fmt.Sprintf(`{"question":%q}`, c.key)
	}
	args := map[string]any{"text": c.key}
	if c.take > 0 {
		args["take"] = c.take
	}
	if c.block != "" {
		args["block"] = c.block
	}
	switch {
	case c.tool == flood:
		args["times"] = c.times
	case c.times > 0:
		args["rounds"] = c.times
	}
	b, _ := json.Marshal(args) // strings and numbers always marshal
	return string(b)
}

// callsFor returns the calls that the model makes in answer to a request; none if it answers with text. A model calls
// no tool that it is not offered: a turn that begins while a server is away has none of that server's.
func (t *turnPlan) callsFor(q fakellm.Request) []callPlan {
	if t.patient {
		return t.patientCall(q)
	}
	if q.Step >= len(t.steps) || t.written && q.Step > 0 {
		return nil
	}
	offered := q.Chat.ToolNames()
	return slices.DeleteFunc(slices.Clone(t.steps[q.Step]),
		func(c callPlan) bool { return !slices.Contains(offered, c.tool) })
}

// asks returns the question that the model asks instead of calling a tool, or "" if it asks none.
func asks(calls []callPlan) string {
	if len(calls) == 1 && calls[0].tool == askUser {
		return calls[0].key
	}
	return ""
}

// reply returns the provider's answer to a request.
func (t *turnPlan) reply(q fakellm.Request) fakellm.Reply {
	var calls []fakellm.ToolCall
	for _, c := range t.callsFor(q) {
		calls = append(calls, fakellm.ToolCall{Name: c.tool, Arguments: c.arguments()})
	}
	if len(calls) == 0 {
		return fakellm.Text(t.final).Usage(10, 5, 0).Delay(t.pace)
	}
	return fakellm.Calls(calls...).Usage(10, 5, 0)
}

// patientTries is how often a careful agent makes a call that was not made, each time as a new call.
const patientTries = 3

// patientCall returns the call of a careful agent, in a session that holds only this turn: it makes its calls one after
// the other, never repeats a call whose outcome is unknown, and makes a call that was not made up to patientTries
// times. It returns nothing when the calls are done, and when the tool is not offered.
func (t *turnPlan) patientCall(q fakellm.Request) []callPlan {
	step, tries := 0, 0
	for _, m := range q.Chat.Messages {
		switch {
		case m.Role != "tool":
		case strings.Contains(m.Content, "appended ") || strings.Contains(strings.ToLower(m.Content), "outcome unknown"),
			tries == patientTries-1:
			step, tries = step+1, 0
		default:
			tries++
		}
	}
	if step >= len(t.steps) {
		return nil
	}
	c := t.steps[step][0]
	if tries > 0 {
		c.key += fmt.Sprintf("-try%d", tries+1)
	}
	if !slices.Contains(q.Chat.ToolNames(), c.tool) {
		return nil
	}
	return []callPlan{c}
}
