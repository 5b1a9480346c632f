// Command fuzz runs every fuzz target of the module for a while and says how it went:
//
//	go run ./tests/fuzz                     each for 30 s, two at once: under five minutes on two cores
//	go run ./tests/fuzz -time 300x          each for 300 executions: does every target work
//	go run ./tests/fuzz -only 'turn|files'  targets whose package and name match
//	go run ./tests/fuzz -list               which targets there are
//
// The targets are found in the test files. Each package's test binary is built once, with Go's coverage for fuzzing in
// it, and run for each of its targets in the package's folder with one worker; what it learns goes into Go's own cache
// of corpora, where go test -fuzz finds it too. Minimising is all but off: a target whose branches depend on more than
// its input (a database's, say) would be minimised for ever.
//
// The exit code is 0 where every target was executed and nothing was found, 1 where something was found or a target could
// not be run or was never executed, and 2 for a wrong command line. Go's fuzzer has written the failing input to the
// package's testdata/fuzz by then; the report names it with the command that replays it. Keep it: go test runs it from
// then on.
//
// With a time, Go's fuzzer now and then calls its own deadline a failure ("context deadline exceeded", after the whole
// time and without a failing input). Exactly that passes here, with a mark.
package main
