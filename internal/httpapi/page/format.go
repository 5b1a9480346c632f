package page

import (
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/everturn/everturn/internal/invisible"
	"github.com/everturn/everturn/workflows/turn"
)

// functions are those of the templates.
var functions = template.FuncMap{
	"path":     url.PathEscape,
	"number":   number,
	"cost":     cost,
	"size":     size,
	"clock":    func(t time.Time) string { return t.UTC().Format("15:04") },
	"stamp":    func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"visible":  visible,
	"line":     line,
	"duration": duration,
	"list":     strings.Join,
}

// number returns n with commas between thousands.
func number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 && digits[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// cost returns the cost of a usage. It never says $0 of tokens whose price is not known.
func cost(u turn.Usage) string {
	switch {
	case u.Unpriced && u.Cost > 0:
		return "over " + u.Cost.String()
	case u.Unpriced:
		return "unpriced"
	}
	return u.Cost.String()
}

// size returns a number of bytes with its unit.
func size(n int64) string {
	switch {
	case n < 10_000:
		return number(n) + " B"
	case n < 1_000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// duration returns a duration in its two largest units at most.
func duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return ago(d)
}

// ago returns a duration in its largest unit.
func ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "now"
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// visible returns a text in which characters that a screen does not show, or that change the order of others, are
// escaped: what a user reads is what the text has.
func visible(s string) string {
	if !strings.ContainsFunc(s, invisible.Rune) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		_, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case invisible.Rune(r):
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// maxLine is the length of a title or of a preview, in bytes.
const maxLine = 200

// line returns a text on one line.
func line(s string) string {
	return visible(turn.Truncate(strings.Join(strings.Fields(s), " "), maxLine))
}
