package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// patterns are shortened versions of the default configuration's patterns.
var patterns = []string{
	`\bsk-[A-Za-z0-9_-]{16,}`, `AKIA[0-9A-Z]{16}`, `(?s)-----BEGIN [A-Z ]*KEY-----.*?-----END [A-Z ]*KEY-----`,
	`(?i)bearer\s+[A-Za-z0-9._~+/-]{16,}=*`, `eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}`,
}

func with(secrets ...string) *Redactor {
	r := New(patterns...)
	r.Add(secrets...)
	return r
}

func TestACutLeavesNoPartOfASecret(t *testing.T) {
	const secret = "key-5e1f09c2/z"
	r := with(secret)
	for _, form := range encodings(secret) {
		for n := 1; n < len(form); n++ {
			assert.Equal(t, "before [redacted], ", r.Head("before "+form+", "+form[:n]))
			assert.Equal(t, " [redacted] after", r.Tail(form[n:]+" "+form+" after"))
		}
	}
	assert.Equal(t, "plain.", r.Head("plain."))
	assert.Equal(t, "plain.", r.Tail("plain."))
	var none *Redactor
	assert.Equal(t, "plain", none.Head("plain")+none.Tail(""))
}

func TestAMaskIsAsLongAsWhatItHides(t *testing.T) {
	r := with("key-5e1f09c2", "12345678", "first line\nsecond line", "ab\nd-5e1f09c2")
	for s, want := range map[string]string{
		"a key-5e1f09c2 b":                  "a [redacted]** b",
		"a k\u200bey-5e1f09c2 b":            "a [redacted]***** b",
		"key-5e1f09c2key-5e1f09c2":          "[redacted]**[redacted]**",
		"a 12345678 b":                      "a ******** b",
		"a\nfirst line\nsecond line\nb":     "a\n[redacted]\n***********\nb",
		"ab\nd-5e1f09c2":                    "**\n**********",
		"[redacted], \xff and [redacted]**": "[redacted], \xff and [redacted]**",
		"plain":                             "plain",
	} {
		assert.Equal(t, want, r.Mask(s))
		assert.Equal(t, want, r.Mask(want))
		assert.Equal(t, s, (*Redactor)(nil).Mask(s))
	}
	for _, c := range []string{"\x01", "\"", "<", "/", "\xff", "\u2028", "\U0010ffff", "%"} {
		for _, form := range encodings(strings.Repeat(c, MaxSecret/len(c))) {
			assert.Less(t, len(form), Reach, c)
		}
	}
}

func TestAChangeKeepsOrAltersSecrets(t *testing.T) {
	r := with("key-5e1f09c2", "first line\nsecond line")
	const before = "a key-5e1f09c2 key-5e1f09c2 [redacted] first line\nsecond line"
	for after, want := range map[string]bool{
		before: true,
		"b first line\nsecond line key-5e1f09c2, key-5e1f09c2":      true,
		"a key-5e1f09c2 key-5e1f 09c2 first line\nsecond line":      false,
		"a key-5e1f09c2 k\u200bey-5e1f09c2 first line\nsecond line": false,
		"a key-5e1f09c2 key-5e1f09c2 first line\n\nsecond line":     false,
		"a key-5e1f09c2 first line\nsecond line":                    false,
	} {
		assert.Equal(t, want, r.Keeps(before, after), after)
		assert.True(t, (*Redactor)(nil).Keeps(before, after))
	}
}

func TestASecretIsBlankedInItsUsualEncodings(t *testing.T) {
	for _, secret := range []string{"key-5e1f09c2", `pa"ss<wo>rd\é/`, "with white space\nand a second line",
		"0123456789abcdef0123456789abcdef"} {
		r := with(secret)
		quote := func(s string) string {
			b, err := json.Marshal(s)
			require.NoError(t, err)
			return string(b)
		}
		output := map[string]string{
			"raw": secret, "query": url.QueryEscape(secret), "path": url.PathEscape(secret),
			"lower":   lowerPercent(url.QueryEscape(secret)),
			"percent": percentAll(secret), "json": quote(secret), "json in json": quote(quote(secret)),
			"json slashes": strings.ReplaceAll(quote(secret), "/", `\/`),
			"hex":          hex.EncodeToString([]byte(secret)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(secret))),
		}
		for name, form := range output {
			assert.NotContains(t, r.String("before "+form+" after"), strings.Trim(form, `"\`), name)
		}
		for before := range 7 {
			for after := range 4 {
				whole := strings.Repeat("u", before) + secret + strings.Repeat("v", after)
				for name, enc := range map[string]*base64.Encoding{"std": base64.StdEncoding, "url": base64.URLEncoding,
					"raw": base64.RawURLEncoding} {
					clean := r.String(enc.EncodeToString([]byte(whole)))
					assert.Contains(t, clean, Text, "%s at %d", name, before)
					assert.LessOrEqual(t, len(clean)-len(Text), before*4/3+after*4/3+8, "only the neighbours' characters remain")
				}
			}
		}
	}
}

// TestASecretIsBlankedAsItIsShown covers secrets that a terminal shows whole although the text has other characters in
// between: some are not drawn, and others are dropped on printing.
func TestASecretIsBlankedAsItIsShown(t *testing.T) {
	r := with("key-5e1f09c2", "ke\r\ny-of-two-lines")
	for _, hidden := range []string{"\x01", "\r", "\x1b", "\x7f", "\u0085", "\u202e", "\u200b", "\u00ad", "\u2060",
		"\u034f", "\ufeff", "\u17b4", "\U000e0041"} {
		for _, secret := range []string{"key-5e1f09c2", hex.EncodeToString([]byte("key-5e1f09c2")), "sk-0123456789abcdefgh",
			"AKIA0123456789ABCDEF"} {
			for at := 1; at < len(secret); at++ {
				split := secret[:at] + hidden + secret[at:]
				assert.Equal(t, "a "+Text+" b", r.String("a "+split+" b"), "%q", split)
				s := r.Stream()
				assert.Equal(t, "a "+Text+" b", s.Write("a "+split[:at+1])+s.Write(split[at+1:]+" b")+s.Flush(), "%q", split)
				quoted, err := json.Marshal("{" + split)
				require.NoError(t, err)
				assert.Equal(t, `"{`+Text+`"`, r.JSON(string(quoted)))
			}
			between := strings.Join(strings.Split(secret, ""), strings.Repeat(hidden, 3))
			assert.Equal(t, hidden+Text+hidden, r.String(hidden+between+hidden))
		}
	}
	assert.Equal(t, Text, r.String("ke\r\ny-of-two-lines"))
	assert.Equal(t, Text, r.String("ke\ny-of-two-lines"))
	for _, text := range []string{"\u200bkey-5e1f\u200b09c\u200b", "👩\u200d🚀 Gr\u00adüße\r\n",
		"sk-0123\u200b4567"} {
		assert.Equal(t, text, r.String(text))
	}
}

func TestSecretsAreAddedWhileTextIsBlanked(t *testing.T) {
	r := with("key-5e1f09c2")
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			token := fmt.Sprintf("token-of-%08d", i)
			for range 50 {
				r.Add(token)
				assert.Equal(t, "[redacted] and [redacted]", r.String("key-5e1f09c2 and "+token))
				r.Remove(token)
			}
		})
	}
	all.Wait()
	assert.Equal(t, "token-of-00000000", r.String("token-of-00000000"))
}

func TestWhatIsNoSecretStays(t *testing.T) {
	r := with("key-5e1f09c2", "short", "  short  ", "", strings.Repeat("x", MaxSecret+1))
	for _, s := range []string{"", "a short text of key-5e1f09c", "KEY-5E1F09C2", "\xff\x00", "[redacted]",
		"task-abcdefghijklmnopqrstuvw", strings.Repeat("x", 100)} {
		assert.Equal(t, s, r.String(s))
	}
	assert.Equal(t, "the key-5e1f09c2", (*Redactor)(nil).String("the key-5e1f09c2"))
}

func TestARemovedSecretStaysWhileItIsAddedElsewhere(t *testing.T) {
	r := with("key-5e1f09c2", "key-5e1f09c2")
	r.Remove("key-5e1f09c2")
	assert.Equal(t, Text, r.String("key-5e1f09c2"))
	r.Remove("key-5e1f09c2", "never added")
	assert.Equal(t, "key-5e1f09c2 never added", r.String("key-5e1f09c2 never added"))
}

func TestJSONStaysJSON(t *testing.T) {
	r := with("key-5e1f09c2", `se"cret\value`)
	for in, want := range map[string]string{
		`{"a":"key-5e1f09c2","n":[1,{"key-5e1f09c2":null}]}`: `{"a":"[redacted]","n":[1,{"[redacted]":null}]}`,
		`{"a":"\u006bey-5e1f\u00309c2 \n"}`:                  `{"a":"[redacted] \n"}`,
		`{"a":"{\"b\":\"\\u006bey-5e1f09c2\"}"}`:             `{"a":"{\"b\":\"[redacted]\"}"}`,
		`{"a":"se\"cret\\value","b":"\u0041"}`:               `{"a":"[redacted]","b":"\u0041"}`,
		// A pattern must not match across two strings.
		`["-----BEGIN KEY-----","-----END KEY-----"]`: `["-----BEGIN KEY-----","-----END KEY-----"]`,
		`["-----BEGIN KEY-----\nx-----END KEY-----"]`: `["[redacted]"]`,
	} {
		assert.Equal(t, want, r.JSON(in))
		assert.Equal(t, want, r.JSON(want))
	}
	for _, broken := range []string{`{"a":"key-5e1f09c2`, `he said "so" and key-5e1f09c2, sk-abcdefghijklmnopqrst`,
		`"\x" key-5e1f09c2`, `"a\"key-5e1f09c2`} {
		assert.NotContains(t, r.JSON(broken), "key-5e1f09c2")
		assert.NotContains(t, r.JSON(broken), "sk-abcdefghijklmnopqrst")
	}
}

func TestAStreamHoldsBackOnlyWhatMayBecomeASecret(t *testing.T) {
	s := with("key-5e1f09c2").Stream()
	assert.Equal(t, "Hello, the ", s.Write("Hello, the key-5e1f"))
	assert.Equal(t, "key-5e1f, no ", s.Write(", no key-5e1f09c"))
	assert.Equal(t, Text+".", s.Write("2."))
	assert.Equal(t, " ", s.Write(" sk-abcdefgh"))
	assert.Equal(t, "", s.Write("ijklmnopqrstuvwxyz"))
	assert.Equal(t, Text+" and task ", s.Write(" and task key-5e"))
	assert.Equal(t, "key-5e", s.Flush())
}

func TestAnEndlessMatchIsNotHeldForEver(t *testing.T) {
	s := with().Stream()
	text := "-----BEGIN KEY-----" + strings.Repeat("secret", 10000)
	var out strings.Builder
	for len(text) > 0 {
		n := min(len(text), 1000)
		out.WriteString(s.Write(text[:n]))
		text = text[n:]
		assert.LessOrEqual(t, len(s.patterns[2].buf), maxHeld+1000)
	}
	assert.True(t, strings.HasPrefix(out.String(), Text+"secret") || strings.HasPrefix(out.String(), Text),
		"it begins with %.40q", out.String())
}

// checkSplits checks all guarantees of the redactor for a text.
func checkSplits(t *testing.T, r *Redactor, secrets []string, text string, rng *rand.Rand) {
	t.Helper()
	want := r.String(text)
	for _, s := range secrets {
		for _, form := range encodings(s) {
			if form = visible(form); len(strings.TrimSpace(s)) >= MinSecret && len(form) >= MinSecret {
				require.NotContains(t, visible(want), form, "of %q", text)
			}
		}
	}
	require.Equal(t, want, r.String(want), "it is idempotent")
	for range 4 {
		s := r.Stream()
		var got strings.Builder
		for rest := []rune(text); len(rest) > 0; {
			n := 1 + rng.IntN(min(len(rest), 1+rng.IntN(20)))
			got.WriteString(s.Write(string(rest[:n])))
			rest = rest[n:]
		}
		got.WriteString(s.Flush())
		require.Equal(t, want, got.String(), "text %q", text)
	}
	if json.Valid([]byte(text)) && strings.Contains(text, `"`) && !json.Valid([]byte(strings.Trim(secrets[0], "-+.eE"))) {
		require.True(t, json.Valid([]byte(r.JSON(text))), "%s", text)
	}
}

// TestAnySplitGivesTheSame checks texts that consist of overlapping and repeated pieces of secrets.
func TestAnySplitGivesTheSame(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 8))
	secrets := []string{"abababababab", "babababa", "abcabcabc", "key-5e1f09c2", "y-5e1f09c2key-", "päßwörter",
		`quo"te\d<s>`}
	r := with(secrets...)
	pieces := []string{"a", "b", "ab", "abc", "key-", "5e1f09c2", "päßw", "örter", " ", "\n", "é", `quo"te`, `\d<s>`,
		`quo\"te\\d`, "[", "redacted]", Text, "sk-", "0123456789abcdef",
		"\u200b", "\u202e", "\x01", "\r", "\u0085", "\U000e0041\u034f", "key-5\ufeffe1f09c2", "sk-01234567\u202e89abcdefghij",
		"\u201c",
		"Bearer ", "bearer", "AKIA", "ABCD", "eyJ", "eyJabcdefgh.", "-----BEGIN KEY-----", "-----END KEY-----", "{", `"`,
		"%22", "%3c", "KEY-----"}
	for _, s := range secrets {
		pieces = append(pieces, encodings(s)...)
	}
	for range 5000 {
		var text strings.Builder
		for range 1 + rng.IntN(12) {
			piece := pieces[rng.IntN(len(pieces))]
			if rng.IntN(4) == 0 {
				runes := []rune(piece)
				piece = string(runes[:rng.IntN(len(runes)+1)])
			}
			text.WriteString(piece)
		}
		checkSplits(t, r, secrets, text.String(), rng)
	}
}

// FuzzSplits checks that any split of any text gives the same result, for any secret.
func FuzzSplits(f *testing.F) {
	f.Add("a key-5e1f09c2 and [redacted", "key-5e1f09c2", uint64(1))
	f.Add("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa sk-0123456789abcdefgh", "aaaaaaaa", uint64(2))
	f.Add(`{"a":"\u0061aaaaaaa","b":"bearer 0123456789abcdef"}`, "aaaaaaaa", uint64(3))
	f.Fuzz(func(t *testing.T, text, secret string, seed uint64) {
		if strings.ContainsAny(secret, "[]") || len(secret) > 100 || len(text) > 4000 ||
			strings.Contains(Text, strings.TrimSpace(secret)) {
			return // the secret and Text together form another occurrence
		}
		text, secret = strings.ToValidUTF8(text, "?"), strings.ToValidUTF8(secret, "?")
		checkSplits(t, with(secret), []string{secret}, text, rand.New(rand.NewPCG(seed, 1)))
	})
}

func TestLogsTellNoSecret(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(with("key-5e1f09c2").Handler(slog.NewTextHandler(&out, nil)))
	log.With("with", "key-5e1f09c2").WithGroup("g").Info("it is key-5e1f09c2", "string", "key-5e1f09c2", "error",
		errors.New("no key-5e1f09c2"),
		"list", []string{"key-5e1f09c2"}, "struct", struct{ Key string }{"key-5e1f09c2"},
		slog.Group("inner", "key", "key-5e1f09c2"), "number", 42)
	assert.NotContains(t, out.String(), "key-5e1f09c2")
	assert.Contains(t, out.String(), "number=42")
	assert.Equal(t, 7, strings.Count(out.String(), Text))
}

// What a match requires is only looked for to save time: the result is that of the regular expression.
func TestAPatternIsFoundAsByPackageRegexp(t *testing.T) {
	for _, expr := range []string{`\bsk-[a-z]{2,}`, `(?i)bearer\s+[a-z]{2,}`, `(?i)sk(-s)+`, `a|sk`, `(bear)?er`,
		`(?:sk-)+a`, `x*`} {
		t.Run(expr, rapid.MakeCheck(func(t *rapid.T) {
			text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(
				[]string{"sk-", "SK-", "s", "bear", "BEAR", "er", " ", "ab", "a", "x"}), 20, 40).Draw(t, "text"), "")
			assert.Equal(t, regexp.MustCompile(expr).ReplaceAllLiteralString(text, Text), New(expr).String(text))
		}))
	}
}

func TestAPatternThatIgnoresCaseFindsLettersThatFoldToASCII(t *testing.T) {
	assert.Equal(t, Text, New(`(?i)sk-key`).String("\u017fK-\u212aEY"))
}
