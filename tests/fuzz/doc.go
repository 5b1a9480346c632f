// Command fuzz runs every fuzz target of the module for a while and says how it went:
//
//	go run ./tests/fuzz                     each for 30 s, two at once: under five minutes on two cores
//	go run ./tests/fuzz -time 300x          each for 300 executions: does every target work
//	go run ./tests/fuzz -only 'turn|files'  targets whose package and name match
//	go run ./tests/fuzz -list               which targets there are
//
// The command finds the targets in the test files. It builds each package's test binary once, with Go's coverage for
// fuzzing, and runs it for each of its targets in the package's folder with one worker. What a run learns goes into
// Go's own cache of corpora, which go test -fuzz uses too. Minimisation is almost disabled: for a target whose branches
// depend on more than its input, such as a database, it would never end.
//
// The exit code is 0 if every target was executed and nothing was found, 1 if a failure was found or a target could not
// run or was never executed, and 2 for a wrong command line. On a failure, Go's fuzzer has written the failing input to
// the package's testdata/fuzz, and the report names it with the command that replays it. Keep the file: go test runs it
// from then on.
//
// When fuzzing for a time, Go's fuzzer sometimes reports its own deadline as a failure ("context deadline exceeded",
// after the whole time and without a failing input). Exactly that passes here, with a mark.
package main
