package main

// limits returns the points at which a worker dies that takes part in the limits of a fleet and in a session's budget,
// or that has task queues for inferences and for tools.
func limits() []point {
	const (
		onePlace = "[provider_limits]\nrequests_in_flight = 1\ntokens_per_minute = 1000000\n"
		budget   = "[budget]\nsession_tokens = 10000000\n"
	)
	return []point{
		with(onePlace, dies("lease_before", "the fleet has one place, and an inference has not taken it",
			"LeaseCapacity:before", firstOf)),
		with(onePlace, dies("lease_after", "an inference has taken the fleet's only place", "LeaseCapacity:after", firstOf)),
		with(budget, dies("reserve_before", "the budget has not reserved the inference's tokens", "ReserveUsage:before",
			anyStep)),
		with(budget, dies("reserve_after", "the budget has reserved the tokens and the model was not asked",
			"ReserveUsage:after", anyStep)),
		separate(dies("queues_inference", "the worker of the inferences dies with a completion", "SettleInference:before",
			anyStep)),
		separate(dies("queues_call", "the worker of the tools dies with a result", "SettleCall:before", anyCall)),
	}
}

// with adds sections to the configuration.
func with(sections string, p point) point {
	shape := p.shape
	p.shape = func(r *harness) {
		r.settings.extra += sections
		shape(r)
	}
	return p
}

// separate gives inferences and tool calls task queues of their own.
func separate(p point) point {
	shape := p.shape
	p.shape = func(r *harness) {
		r.settings.worker = "separate_queues = true\n"
		shape(r)
	}
	return p
}
