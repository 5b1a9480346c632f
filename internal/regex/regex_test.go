package regex_test

import (
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/internal/regex"
)

// TestCountBoundsTheProgram checks that the count is never below the size of the compiled program, and not far above
// it.
func TestCountBoundsTheProgram(t *testing.T) {
	for _, expr := range []string{
		``, `a`, `abc`, `(?i)abc`, `a|b|cd`, `^(a+)+$`, `x*y?z+`, `[a-z]{3}`, `[^z]{0,1000}`, `(ab|c){2,5}`, `(a{2,}b){3,7}`,
		`a{0}b{0,}c{1,}d{1}`, `(?:(?:a?){10}){10}`,
		`\pL{1,20}`, `(){1000}`, `\bfoo\b`, `(?s).{5,}`, `[\w.+-]{1,64}@([a-z0-9-]{1,63}\.){1,8}[a-z]{2,24}`,
		`(?P<y>\d{4})-(?P<m>\d\d)`,
	} {
		n, err := regex.Count(expr, 1000, 10_000)
		require.NoError(t, err, expr)
		re, err := syntax.Parse(expr, syntax.Perl)
		require.NoError(t, err)
		prog, err := syntax.Compile(re.Simplify())
		require.NoError(t, err)
		assert.GreaterOrEqual(t, n, len(prog.Inst), expr)
		if expr != `(){1000}` && expr != `\pL{1,20}` { // the first simplifies to (), the second has a large class
			assert.LessOrEqual(t, n, 3*len(prog.Inst)/2+3, expr)
		}
	}
}

func TestCountRefuses(t *testing.T) {
	for name, expr := range map[string]string{
		"long source": strings.Repeat("a", 1001), "syntax": "(", "repeats": strings.Repeat("[^z]{0,1000}", 10),
		"nested repeats": "((a{10}){10}){10}b{1001}", "just over": "a{999}",
	} {
		_, err := regex.Count(expr, 1000, 1000)
		assert.Error(t, err, name)
	}
}
