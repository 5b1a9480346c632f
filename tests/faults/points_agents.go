package main

import (
	"context"
	"time"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// helpers returns the points at which the worker dies while a turn and the agents that it calls are at work. Parent and
// children run on the same worker, so both die.
func helpers() []point {
	return []point{
		helped(dies("agent_claim_before", "the call of an agent is not claimed", "ClaimCall:before", firstOf)),
		helped(dies("agent_claim_after", "the call is claimed and the agent has no turn", "ClaimCall:after", firstOf)),
		helped(dies("agent_begin_before", "the agent's task is not in the journal", "Begin:before", second)),
		helped(dies("agent_begin_after", "the agent's task is in the journal and its workflow does not know", "Begin:after",
			second)),
		helped(dies("agent_infer", "an agent's answer is complete and not settled", "SettleInference:before", anyHelped)),
		helped(dies("agent_call", "an agent's call has its effect and is not settled", "SettleCall:before", anyHelped)),
		helped(dies("agent_finish_before", "the agent's answer is there and its turn is not settled", "Finish:before",
			firstOf)),
		helped(dies("agent_settle_before", "the agents' turns are settled and a call of one is not", "SettleCall:before",
			afterAgents)),
		helped(dies("agent_settle_after", "the call of an agent is settled and the workflow does not know",
			"SettleCall:after", afterAgents)),
		helped(dies("agent_finish_after", "the agent's turn is settled and the call is not", "Finish:after", firstOf)),
	}
}

func second(*harness) int { return 2 }

// asides returns the points at which the worker dies while an agent works in the background, or its answer begins a
// turn.
func asides() []point {
	return []point{
		aside(dies("aside_started", "the agent works in the background and its call is not settled", "SettleCall:before",
			firstOf)),
		aside(dies("aside_answered", "the agent's answer is settled and not handed over", "SettleCall:after", theAnswer)),
		aside(dies("aside_begin_before", "the answer is handed over and begins no turn yet", "Begin:before", fourth)),
		aside(dies("aside_begin_after", "the answer has begun a turn and its workflow does not know", "Begin:after", fourth)),
	}
}

// fourth is the turn of the answer, after those of the companion, the target and the agent.
func fourth(*harness) int { return 4 }

// theAnswer is the settlement with the answer. The calls of the agent are settled before, and its own call twice: by
// the turn that made it, and before its answer.
func theAnswer(r *harness) int { return 3 + r.task().calls() }

// task returns the plan of the agent's task.
func (r *harness) task() *turnPlan { return r.plans[r.target.steps[0][0].key] }

// aside lets the target call an agent in the background, which makes calls of its own. Its answer begins the session's
// next turn.
func aside(p point) point {
	p.shape = func(r *harness) {
		r.settings.runtime = "agents = [\"helper\"]\n"
		r.settings.extra += "[[agents]]\nid = \"helper\"\n"
		r.companion.steps = nil
		task := newTurn(r.rng, r.target.session, 50)
		for range 2 {
			task.add(1+r.rng.IntN(2), func(int) string { return tools[r.rng.IntN(len(tools))] })
		}
		task.session, task.pace = "", 20*time.Millisecond
		r.plan(task)
		r.target.steps = [][]callPlan{{{tool: helper, key: task.text, aside: true}}}
		answer := newTurn(r.rng, r.target.session, 51)
		answer.text = journal.SubagentAnswer("helper", task.final)
		answer.add(1, func(int) string { return tools[r.rng.IntN(len(tools))] })
		r.plan(answer)
	}
	p.then = func(ctx context.Context, r *harness) error {
		return reach(ctx, "the end of the answer's turn", func() bool { return r.answerArrived(ctx) })
	}
	return p
}

// answerArrived reports whether a turn of the target's session has the answer of its agent, and has ended.
func (r *harness) answerArrived(ctx context.Context) bool {
	turns, err := r.journal.Turns(ctx, r.target.session)
	if err != nil {
		return false
	}
	for _, t := range turns {
		its, err := r.journal.Delivered(ctx, r.target.session, turn.SubagentAnswerID(turn.SubagentSession(t.ID, "1.0")))
		if err == nil && its.State.Terminal() {
			return true
		}
	}
	return false
}

// afterAgents is the settlement that follows those of all calls of the agents.
func afterAgents(r *harness) int {
	n := 1
	for _, t := range r.plans {
		if t.session == "" {
			n += t.calls()
		}
	}
	return n
}

// anyHelped picks one of the steps or calls of the target and its agents, which have at least as many.
func anyHelped(r *harness) int { return 1 + r.rng.IntN(4) }

// helped lets the target call two agents at once, each of which makes calls of its own.
func helped(p point) point {
	p.shape = func(r *harness) {
		r.settings.runtime = "agents = [\"helper\"]\n"
		r.settings.extra += "[[agents]]\nid = \"helper\"\n"
		r.companion.steps = nil
		step := make([]callPlan, 2)
		for i := range step {
			task := newTurn(r.rng, r.target.session, 50+i)
			for range 2 {
				task.add(1+r.rng.IntN(2), func(int) string { return tools[r.rng.IntN(len(tools))] })
			}
			task.session = ""
			r.plan(task)
			step[i] = callPlan{tool: helper, key: task.text}
		}
		r.target.steps = [][]callPlan{step}
	}
	return p
}
