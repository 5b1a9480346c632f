package main

// group is a set of points after which the same action lets turns continue.
type group struct {
	name, recovers string
	points         []point
}

// groups returns all points.
func groups() []group {
	return []group{
		{"The worker dies, seen from inside", "After the heartbeat timeout Temporal gives the task to another worker. The " +
			"journal tells it what was begun, claimed or settled; a claimed call that is not repeatable ends as `unknown`.",
			killsInside()},
		{"The worker dies or freezes, seen from outside", "The same. What a frozen worker writes later is kept as a late " +
			"result; the transcript is not changed.", killsOutside()},
		{"The network", "Clients and workers reconnect. The journal has what could not be reported.", network()},
		{"The model's provider",
			"The failed attempt is counted and retried with the same prompt, for at most `retry_for`. " +
				"An answer over the limits is refused permanently.", provider()},
		{"A provider or a journal that is away for long", "Turns wait without slots of a worker and without working time; " +
			"one of them asks whether the other side is back.", longOutages()},
		{"A fallback, a compaction or a provider's limit", "The journal names the model that took over, and has the " +
			"compaction that is settled. A turn that waits for a limit needs no worker.", models()},
		{"Limits of a fleet, budgets and separate task queues", "A dead worker's place is free after 30 s, and what it " +
			"reserved of a budget stands for what it may have spent.", limits()},
		{"Agents that call agents",
			"The subagent's session derives from the call, so the next worker finds the same subagent, and " +
				"its task runs once. A turn that is stopped stops its subagents.", helpers()},
		{"Agents in the background", "The delivery is a workflow: the next worker continues it, and hands the answer over " +
			"once. The turn that it begins gets what is left of the limits.", asides()},
		{"Plans", "The plan is in the journal: the next worker reads from the calls which steps are done, and goes on.",
			plans()},
		{"Canvases", "A commit carries its call in a trailer. A call that is repeated finds the commit that it " +
			"has made, or begins again from the last one.",
			canvases()},
		{"Canvases on several machines",
			"The journal has the last commit, which is at the remote. Another machine takes over " +
				"from there after `takeover_after`; what the first one does then is refused.", remotes()},
		{"Commands", "The kernel ends the processes with their worker. What they have changed is committed as theirs before " +
			"the next call; the outcome of a command is `unknown`.", commands()},
		{"MCP servers", "The call's result says what is known, and the server is restarted with backoff.", toolServers()},
		{"MCP servers that restart", "A call that was not sent waits for its server within its own timeout.", aways()},
		{"A server or the worker dies in mid-call",
			"An unwritten request is written by another attempt; an answer that was " +
				"read is settled. Everything in between is `unknown`, with at most one effect.", struck()},
		{"The journal's disk and lock", "Writes are retried until the journal takes them.", journalFile()},
		{"The journal's Postgres server", "A transaction is retried until the server answers. If the reply to a commit is " +
			"lost, the journal looks up what it wrote.", postgresPoints()},
		{"Temporal's server, and many clients", "The server continues from its database. A message ID is accepted once.",
			servers()},
		{"A bad deploy", "Its workflow tasks fail and are retried; the good version continues.", deploys()},
		{"The operator stops the turn", "Temporal keeps the stop: the turn ends as cancelled, with a result for each call.",
			cancels()},
		{"Approvals, questions, messages in mid-turn", "The journal and the history hold the requests. The first decision " +
			"counts, for the call and the arguments that it names.", people()},
		{"Elicitations",
			"The journal holds what continues the call. The next attempt takes the response to any process of " +
				"the server. A call that an older server holds open is `unknown` if its worker dies.", elicitations()},
		{"Servers that change, flood, stall or forget",
			"A changed tool is quarantined; untrusted text makes later calls ask; " +
				"a late result becomes a notice; lost server state is reported.", trusted()},
		{"Attacks", "The worker drops what exceeds a bound, serves ten other sessions, and is idle again afterwards.",
			attacks()},
		{"Everything at once", "All of the above.", storms()},
	}
}

// allPoints returns the points of all groups.
func allPoints() []point {
	var out []point
	for _, g := range groups() {
		out = append(out, g.points...)
	}
	return out
}
