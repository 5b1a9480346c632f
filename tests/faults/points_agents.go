package main

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

func second(*rig) int { return 2 }

// afterAgents is the settlement that follows those of all calls of the agents.
func afterAgents(r *rig) int {
	n := 1
	for _, t := range r.plans {
		if t.session == "" {
			n += t.calls()
		}
	}
	return n
}

// anyHelped picks one of the steps or calls of the target and its agents, which have at least as many.
func anyHelped(r *rig) int { return 1 + r.rng.IntN(4) }

// helped lets the target call two agents at once, each of which makes calls of its own.
func helped(p point) point {
	p.shape = func(r *rig) {
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
