# For people; .ci/run does the same on a fresh machine.
.PHONY: install test tidy lint race replay fuzz faults fault-figures points mutants soak bench bench-accept bench-gate bench-smoke bench-people bench-fleet sequences trees coding maxima servers man fleet browser

FUZZTIME ?= 30s
TOOL = go tool -modfile=tools/lint.mod

# The linters of .golangci.yaml, with the reason for each.
LINT = $(CURDIR)/.everturn/bin/golangci-lint run --allow-parallel-runners -c $(CURDIR)/.golangci.yaml

# Of the modules, which are no product, these.
HARNESS = --enable-only govet,staticcheck,unused

# What only the faults, the benchmark, or the tests of the Web UI, the dashboards and deploy need is in modules of their
# own, so that it is not required by everyone. examples/concierge is one because a user's program is.
MODULES = tests/faults tests/bench tests/browser tests/dashboards tests/deploy examples/concierge

test: lint
	go test ./...
	for m in $(MODULES); do go test -C $$m ./... || exit 1; done

# everturn with its completions and manual pages, for this user; PREFIX=/usr/local is for all. DESTDIR is for packagers.
PREFIX ?= $(HOME)/.local
BIN = $(DESTDIR)$(PREFIX)/bin
SHARE = $(DESTDIR)$(PREFIX)/share

install:
	install -d $(BIN) $(SHARE)/man/man1 $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions \
		$(SHARE)/fish/vendor_completions.d
	go build -o $(BIN)/everturn ./starter
	ln -sf everturn $(BIN)/temporal-agent
	$(BIN)/everturn man $(SHARE)/man/man1
	$(BIN)/everturn completion bash > $(SHARE)/bash-completion/completions/everturn
	$(BIN)/everturn completion zsh > $(SHARE)/zsh/site-functions/_everturn
	$(BIN)/everturn completion fish > $(SHARE)/fish/vendor_completions.d/everturn.fish
	@case ":$$PATH:" in *:$(PREFIX)/bin:*) ;; *) echo "add $(PREFIX)/bin to PATH" ;; esac

# go.mod and go.sum of all modules.
tidy:
	go mod tidy
	for m in $(MODULES); do (cd $$m && go mod tidy) || exit 1; done

# The packages in which goroutines share data, without the tests that read large input in one goroutine: the race
# detector makes those ten times slower. Of the journals, what several processes and goroutines share.
LARGE = ^Fuzz|BoundToWhatWasShown|ClusterOfTheArguments|OverABound|Linear|OfABomb|LongAnswer|MultiplyABlob|LongLine|^TestEdited|AreNotKept|MediaAre|Megabytes|FloodsIsDropped|OverAndOver

race:
	go test -race -skip '$(LARGE)' ./journal ./activities/inference/... ./activities/mcp/... \
		./activities/tools/... ./starter/internal/ui/chat
	go test -race -run 'OfTwoOpens|Locked|ShareAFile|ManyOpen|Group|NothingIsLost' ./journal/sqlite ./journal/postgres

lint:
	@test -z "$$(gofmt -l . | tee /dev/stderr)"
	go build -modfile=tools/lint.mod -o .everturn/bin/ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	$(LINT) ./...
	for m in $(MODULES); do (cd $$m && $(LINT) $(HARNESS) ./...) || exit 1; done
	cd tests/faults && $(LINT) $(HARNESS) --build-tags mutants ./worker
	$(TOOL) workflowcheck -config tools/workflowcheck.yaml ./workflows/...

# Every kept history on the code as it is, and changes that must not pass. Seconds; no server.
replay:
	go test ./tests/replay -count=1 -v -run '^(TestKeptHistories|TestAnIncompatible)'

# Every fuzz target for FUZZTIME, as many at once as FUZZ="-jobs N" says; -only PATTERN takes some.
fuzz:
	go run ./tests/fuzz -time $(FUZZTIME) $(FUZZ)

# Servers that nobody here wrote, and the official conformance suite. Needs npm.
servers:
	EVERTURN_SERVERS_REQUIRED=1 go test ./tests/servers/... ./tests/conformance -count=1 -v

# The services of docker-compose.yml as processes, until Ctrl-C: Postgres, Temporal 1.32, its Web UI, workers. State in .fleet.
# FLEET="-workers 4 -port 7233" sets flags; the first run builds the server: some five minutes.
fleet:
	go run ./tests/fleet/run $(FLEET)

# Every fault once, and the mutants that show that the checker notices. FAULTS="-runs 100" is the long run.
# JOURNAL=postgres plays them on Postgres.
RUN_FAULTS = go run -C tests/faults . -journal $(or $(JOURNAL),sqlite)

faults: mutants points

points:
	$(RUN_FAULTS) $(FAULTS)

mutants:
	$(RUN_FAULTS) -mutants $(FAULTS)

# All figures of docs/faults.md except the soak: some 25 minutes on two cores.
fault-figures:
	for journal in sqlite postgres; do \
		$(MAKE) points JOURNAL=$$journal FAULTS="-docs -runs 2 -parallel 12" || exit 1; \
		$(MAKE) mutants JOURNAL=$$journal FAULTS="-docs -parallel 8" || exit 1; \
	done

# A hundred sessions for half an hour while everything around them dies. SOAK=2m is a short one.
soak:
	$(RUN_FAULTS) -soak $(or $(SOAK),30m)

# Turns against two baselines on a real server: docs/benchmarks.md. make says "Error 3" where only a median is worse than
# accepted; built first, because go run keeps exit codes to itself.
BENCH = go build -C tests/bench -o $(CURDIR)/.everturn/bin/bench . && .everturn/bin/bench

bench:
	@$(BENCH)

# A few turns of each kind: does everything work, are the counts right.
bench-smoke:
	@$(BENCH) -smoke

# Ratios to the cookbook, of thirty turns: CPU, memory and p50 against the accepted run, with wide bounds. What is worse
# fails only if it is worse three times.
bench-gate:
	@$(BENCH) -gate

# A full run that becomes the accepted one: make bench-accept REASON="what changed". With LAST=1 it is the last run of make
# bench, which you have looked at, that is accepted.
bench-accept:
	@test -n "$(REASON)" || { echo 'say why: make bench-accept REASON="what changed"'; exit 1; }
	@$(BENCH) -accept "$(REASON)" $(if $(LAST),-last)

# What waiting for people costs, and how long people wait: some ten minutes. docs/benchmarks.md gets its figures.
bench-people:
	@$(BENCH) -people -write

# The figures of docs/scale.md: workers with one journal in Postgres, streams and waiting turns, some 12 minutes.
bench-fleet:
	@$(BENCH) -fleet
	@.everturn/bin/bench -fleet -people

# A thousand generated conversations against a model of a session, on one worker and on a fleet.
sequences:
	EVERTURN_FLEET_REQUIRED=1 go test ./tests -run '^TestGeneratedSequences' -sequences 1000 -v -timeout 60m

# A thousand random sequences of edits, commands, forks, rewinds, undos and merges in trees, with processes that are killed,
# and a few by the commands of a user, with workers and a journal.
trees:
	go test ./tests -run '^TestTreesFollowTheirTranscripts$$' -tree-sequences 30 -v -timeout 60m
	go test ./internal/workspace -run '^TestTreeAndTranscriptAgree$$' -tree-sequences 1000 -v -timeout 120m

# A coding task in repositories of yours, for instance clones of google/uuid, jonschlinkert/is-number and tldr-pages/tldr:
# make coding REPOS=DIR,DIR,DIR. The worker is killed fifty times. Without REPOS it makes small repositories.
coding:
	go test ./tests -run '^TestCodingTasks' -repos "$(REPOS)" -kills 50 -v -timeout 120m

# A thousand messages with random maxima, half of them with subagents, on four workers that are killed; and the costs of a
# thousand turns.
maxima:
	go test ./tests -run '^(TestNoMaximumIsExceeded|TestCostsAreTheProvidersOwn)$$' -maxima 2000 -cost-turns 1000 -v -timeout 120m

# Manual pages, into dist/man.
man:
	go run ./starter man dist/man

# What a user sees of a turn in the Web UI, in Chromium (apt-get install chromium): about 2 minutes.
browser:
	EVERTURN_BROWSER_REQUIRED=1 go test -C tests/browser -count=1 ./...
