package regex

import (
	"fmt"
	"regexp/syntax"
)

// runesPerInstruction is the number of range bounds of a character class, 4 bytes each, that count as one
// instruction.
const runesPerInstruction = 256

// Count returns the approximate number of instructions to which regexp.Compile would compile expr. It counts them in
// the syntax tree, in time and memory proportional to len(expr). It returns an error if expr does not parse, is
// longer than maxBytes, or has more than maxInstructions instructions. To match a text takes at most about as many
// steps as the number of instructions times the bytes of the text.
func Count(expr string, maxBytes, maxInstructions int) (int, error) {
	if len(expr) > maxBytes {
		return 0, fmt.Errorf("regular expression is %d bytes; the maximum is %d", len(expr), maxBytes)
	}
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return 0, err
	}
	n := count(re, maxInstructions) + 2 // every program also has an instruction to fail and one to match
	if n > maxInstructions {
		return 0, fmt.Errorf(
			"regular expression compiles to more than %d instructions, with repeats such as {0,1000} multiplied out; "+
				"use smaller or fewer repeats", maxInstructions)
	}
	return n, nil
}

// count returns the number of instructions for the syntax tree re, or limit+1 if there are more than limit. It
// follows syntax.Compile after Simplify, which rewrites x{2,4} as xx(x(x)?)?. The recursion is bounded, because the
// parser bounds the depth of the tree.
func count(re *syntax.Regexp, limit int) int {
	n := 0
	for _, sub := range re.Sub {
		n = min(n+count(sub, limit), limit+1)
	}
	switch re.Op {
	case syntax.OpLiteral:
		n = len(re.Rune)
	case syntax.OpCharClass:
		n = 1 + len(re.Rune)/runesPerInstruction
	case syntax.OpConcat:
	case syntax.OpAlternate:
		n += len(re.Sub) - 1
	case syntax.OpCapture, syntax.OpStar:
		n += 2
	case syntax.OpRepeat:
		if re.Max < 0 { // x{n,}: n copies, and a loop around the last one
			n = n*max(re.Min, 1) + 2
		} else { // x{n,m}: m copies, and a branch before each of the m-n optional ones
			n = max(n*re.Max+re.Max-re.Min, 1)
		}
	default:
		n++
	}
	return min(n, limit+1)
}
