// Command bench measures Everturn's turns against two baselines on a real Temporal server, in one run:
//
//	make bench                        the full run, under ten minutes on two cores
//	make bench-smoke                  about a minute: checks that everything works and the counts are right
//	make bench-people                 turns that wait for users, and users who wait for turns: about ten minutes
//	.everturn/bin/bench -only five    scenarios whose name contains this text
//
// It runs in the repository's root, and is a module of its own.
//
// The baselines are the floor (a workflow with as many empty activities as the turn has) and the cookbook (the usual
// loop, whose inference activities get the whole list of messages); both are packages beside this one. The server, the
// workers and the scripted model provider are processes of their own: the workers of Everturn are the real worker
// command with an agent.toml, all others are this program in a role.
//
// The arms of a scenario alternate in blocks (A B C A B C …), so that other load on the machine affects them alike.
// Only ratios within a run are judged: against the aims in report.Aims, which are printed, and against the last
// accepted run in baseline.json, which decides the exit code:
//
//	0  within the baseline
//	1  an error, or p95 more than 10 % or peak memory more than 5 % worse
//	3  p50 more than 7 % worse: review it, then fix it or accept it (make bench-accept REASON=…)
package main
