package regex

import (
	"fmt"
	"regexp/syntax"
)

// runesPerInstruction is how many range bounds of a character class, 4 bytes each, count as one instruction.
const runesPerInstruction = 256

// Count returns the approximate number of instructions that regexp.Compile would make of expr. It counts them in the
// syntax tree, in time and memory proportional to len(expr). It returns an error if expr does not parse, is longer than
// maxBytes, or has more than maxInstructions instructions. Matching takes at most about instructions times bytes of
// text steps.
func Count(expr string, maxBytes, maxInstructions int) (int, error) {
	if len(expr) > maxBytes {
		return 0, fmt.Errorf("regular expression is %d bytes; the maximum is %d", len(expr), maxBytes)
	}
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return 0, err
	}
	n := count(re, maxInstructions) + 2 // fail and match
	if n > maxInstructions {
		return 0, fmt.Errorf(
			"regular expression compiles to more than %d instructions, with repeats such as {0,1000} multiplied out; "+
				"use smaller or fewer repeats", maxInstructions)
	}
	return n, nil
}

// count stops soon after it exceeds limit. It follows syntax.Compile after Simplify, which rewrites x{2,4} as
// xx(x(x)?)?. The parser bounds the depth of the tree.
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
		if re.Max < 0 {
			n = n*max(re.Min, 1) + 2
		} else {
			n = max(n*re.Max+re.Max-re.Min, 1)
		}
	default:
		n++
	}
	return min(n, limit+1)
}
