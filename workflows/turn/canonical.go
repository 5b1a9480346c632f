package turn

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// canonicalJSON writes a decoded value the one way: compact, keys sorted, numbers as canonicalNumber has them. Numbers
// must have been decoded as json.Number.
func canonicalJSON(value any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(canonicalNumbers(value)); err != nil {
		return ""
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func canonicalNumbers(value any) any {
	switch v := value.(type) {
	case json.Number:
		if n, ok := canonicalNumber(v.String()); ok {
			return json.Number(n)
		}
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = canonicalNumbers(inner)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		//workflowcheck:ignore
		for name, inner := range v {
			out[name] = canonicalNumbers(inner)
		}
		return out
	}
	return value
}

// plainDigits is how many digits a canonical number has at most before or behind its point, beyond which it is written
// with an exponent: as in ECMAScript and RFC 8785, but without their rounding to a float64.
const plainDigits = 21

// canonicalNumber writes a JSON number without needless zeros, sign or exponent, and never rounds it. It reports false for
// what is no JSON number, or one whose exponent no reader could take.
func canonicalNumber(s string) (string, bool) {
	if s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') || !json.Valid([]byte(s)) {
		return "", false
	}
	mantissa, exponent, _ := strings.Cut(strings.ToLower(s), "e")
	shift := 0
	if exponent != "" {
		n, err := strconv.ParseInt(exponent, 10, 32)
		if err != nil {
			return "", false
		}
		shift = int(n)
	}
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	point := shift + len(whole) - (len(whole+fraction) - len(digits)) // where the point stands in digits
	digits = strings.TrimRight(digits, "0")
	if digits == "" {
		return "0", true
	}
	text := placed(digits, point)
	if negative {
		text = "-" + text
	}
	return text, true
}

// placed writes digits with the decimal point at a place, which may lie outside of them.
func placed(digits string, point int) string {
	switch {
	case point > 0 && point <= plainDigits && point >= len(digits):
		return digits + strings.Repeat("0", point-len(digits))
	case point > 0 && point < len(digits):
		return digits[:point] + "." + digits[point:]
	case point <= 0 && point > -plainDigits:
		return "0." + strings.Repeat("0", -point) + digits
	}
	if len(digits) > 1 {
		digits = digits[:1] + "." + digits[1:]
	}
	return digits + "e" + strconv.Itoa(point-1)
}
