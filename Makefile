# For people; .ci/run does the same on a fresh machine.
.PHONY: test lint race fuzz faults mutants bench bench-accept

FUZZTIME ?= 10s
TOOL = go tool -modfile=tools/lint.mod

test: lint
	go test ./...

race:
	go test -race ./journal/... ./activities/inference/... ./activities/toolbox/...

lint:
	@test -z "$$(gofmt -l . | tee /dev/stderr)"
	go vet ./...
	$(TOOL) staticcheck ./...
	$(TOOL) workflowcheck -config tools/workflowcheck.yaml ./workflows/...

# Every fuzz target for FUZZTIME.
fuzz:
	@set -e; for pkg in $$(go list ./...); do \
	  for f in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "$$pkg $$f"; go test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x $$pkg; done; done

# Every fault once, and the mutants that show that the checker notices. FAULTS="-runs 100" is the long run.
faults: mutants
	go run ./tests/faults $(FAULTS)

mutants:
	go run ./tests/faults -mutants

# Turns against two baselines on a real server: docs/benchmarks.md. Exits with 3 where a median is worse than accepted.
bench:
	go run ./tests/bench

# The same, and the run becomes the baseline: make bench-accept REASON="what changed".
bench-accept:
	@test -n "$(REASON)" || { echo 'say why: make bench-accept REASON="what changed"'; exit 1; }
	go run ./tests/bench -accept "$(REASON)"
