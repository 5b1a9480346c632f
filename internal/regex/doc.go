// Package regex limits regular expressions from models and servers before they are compiled. Package regexp matches
// in linear time, but with the size of the compiled program as a factor, and a few bytes with nested repeats compile
// to millions of instructions.
package regex
