package toolbox_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/activities/toolbox"
	"github.com/everturn/everturn/workflows/turn"
)

func TestSanitize(t *testing.T) {
	for in, want := range map[string]string{
		"":                           "",
		"plain\ttext\n":              "plain\ttext\n",
		"grüße 世界 👩‍👩‍👧":             "grüße 世界 👩‍👩‍👧",
		"a\x00b\x07c\x7fd":           "abcd",
		"\x1b[31mred\x1b[0m":         "red",
		"\x1b]0;title\x07x":          "x",
		"\x1b]8;;http://e\x1b\\link": "link",
		"\x1b(Bx\x1bMy":              "xy",
		"\u009b31mred":               "red",
		"a\u0085b":                   "ab",
		"bad \xff\xfe utf":           "bad \ufffd\ufffd utf",
		"a\r\nb\rc":                  "a\nb\nc",
		"\x1b":                       "",
		"\x1b[":                      "",
		"\x1b]never ends":            "never ends",
		"\x1b\x1b[31mx":              "x",
		"\x1b[31\nm":                 "\nm",
		"cut \x1b" + "é":             "cut é",
	} {
		assert.Equal(t, want, toolbox.Sanitize(in), "%q", in)
	}
}

func TestCutKeepsBothEnds(t *testing.T) {
	s := "head" + strings.Repeat("é", 1000) + "tail"
	cut, was := toolbox.Cut(s, 500)
	assert.True(t, was)
	assert.LessOrEqual(t, len(cut), 500)
	assert.True(t, strings.HasPrefix(cut, "headé"))
	assert.True(t, strings.HasSuffix(cut, "étail"))
	assert.Contains(t, cut, "of 2008 bytes left out here")
	assert.True(t, utf8.ValidString(cut))
}

func TestResultsAreMadeSafe(t *testing.T) {
	h := newHost(t, toolbox.Options{MaxResultBytes: 1000, MaxFullBytes: 5000}, nil, stdioServer("srv"))
	assert.Equal(t, "ab red end\nnext", call(t, h, "mcp/srv/dirty", `{}`).Text)

	r := call(t, h, "mcp/srv/binary", `{}`)
	assert.Equal(t, "[image/png, 6 bytes]", r.Text)
	assert.Equal(t, "\x89PNG\x00\x01", string(r.Full))
	assert.Equal(t, "image/png", r.MediaType)

	r = call(t, h, "mcp/srv/big", `{"bytes":4000}`)
	assert.Equal(t, turn.OutcomeOK, r.Outcome)
	assert.LessOrEqual(t, len(r.Text), 1000)
	assert.Len(t, r.Full, 4000)
	assert.EqualValues(t, 4000, r.SizeBytes)

	r = call(t, h, "mcp/srv/big", `{"bytes":9000}`)
	assert.Len(t, r.Full, 5000)
	assert.EqualValues(t, 9000, r.SizeBytes)

	r = call(t, h, "mcp/srv/big", `{"bytes":1000}`)
	assert.Len(t, r.Text, 1000)
	assert.Nil(t, r.Full)
}
