package main

// group is a set of points after which the same action lets turns continue.
type group struct {
	name, recovers string
	points         []point
}

// groups returns all points.
func groups() []group {
	return []group{
		{"The worker dies, inside", "Temporal gives the task to another worker when the heartbeat stays away, and the " +
			"journal's ledgers tell that one what was " +
			"begun, claimed or settled. A call that was claimed and may not be repeated is answered with `outcome unknown`.",
			killsInside()},
		{"The worker dies, or is a zombie, seen from outside",
			"The same; what a zombie brings late is kept as late, and is never put over the transcript.", killsOutside()},
		{"The network", "Clients and workers connect again; what was reported in vain is found settled in the journal.",
			network()},
		{"The model's provider", "The attempt is counted as a failure and repeated with the same prompt after a pause, at " +
			"most `retry_max` times; an answer over the limits is refused for good.", provider()},
		{"MCP servers", "The call's result says what is known, the server is started again with growing pauses, and the " +
			"model goes on.", toolServers()},
		{"MCP servers that restart", "A call that was not sent waits for its server within its own time, and the pause " +
			"after each failure is the worker's to choose.", aways()},
		{"A server or the worker dies in the middle of a call",
			"A request that was not written is written again, by another dispatch; an answer that was read is settled. " +
				"Everything in between is `outcome unknown`, with one effect at most.", struck()},
		{"The journal's disk and lock",
			"Writes are tried again until the journal takes them; an answer that could not be kept is asked for again.",
			store()},
		{"The journal's Postgres server", "A transaction is repeated until the server answers; after a commit whose reply " +
			"is lost, the journal looks up what it has written.", postgresPoints()},
		{"Temporal's server, and many clients",
			"The server goes on from its own database; a message ID is taken once, for ever.", servers()},
		{"A bad deploy", "Its tasks fail and are tried again, without an end for the turn; the good version goes on where " +
			"it was.", deploys()},
		{"A person stops the turn",
			"The stop is Temporal's, and so is not lost: the turn ends as cancelled with a result for each call.", cancels()},
		{"People: approvals, questions, messages in mid-turn", "What a turn waits for is in the journal and in its " +
			"history; nothing is held meanwhile. The first decision counts, " +
			"for the call and the arguments that it names, and no call of the answer runs before all are made.", people()},
		{"Servers that ask people", "What goes on with the call is in the journal, and nothing waits anywhere else. The " +
			"reply goes to any process of the server, with the first dispatch " +
			"that can; a call whose server may have been told is not told again.", inquiries()},
		{"Servers that change, talk, are slow or forget", "A tool that changes is held back until an operator accepts it; " +
			"what strangers say puts every later call before a person; a call that ends too " +
			"late is told of once, beside what the transcript says; what a server has forgotten is said.", trusted()},
		{"Attacks: floods, bombs and forged imports", "Ten other sessions work meanwhile. The worker drops what goes over " +
			"a bound, answers the others, and is idle again when the attack is over.", attacks()},
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
