// Package regex bounds regular expressions that models and servers supply, before they are compiled. Package regexp
// matches in linear time, but its factor is the size of the compiled program, and a few bytes with nested repeats
// compile to millions of instructions.
package regex
