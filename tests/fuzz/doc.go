// Command fuzz runs every fuzz target of the module, since go test -fuzz takes one target of one package:
//
//	go run ./tests/fuzz                     each for 30 s, two at once: under five minutes on two cores
//	go run ./tests/fuzz -time 300x          each for 300 executions: does every target work
//	go run ./tests/fuzz -only 'turn|files'  targets whose package and name match
//	go run ./tests/fuzz -list               which targets there are
//
// The exit code is 0 if every target was executed and nothing was found, and 1 otherwise. On a failure, Go's fuzzer has
// written the failing input to the package's testdata/fuzz, and its output names the command that replays it. Keep the
// file: go test runs it from then on.
//
// Minimisation is almost disabled: for a target whose branches depend on more than its input, such as a database, it
// would never end. Go's fuzzer sometimes reports its own deadline as a failure ("context deadline exceeded", without a
// failing input). Exactly that passes here.
package main
