package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
)

// encodings returns the forms in which a value is usually written in text. It leaves out forms shorter than
// MinSecret.
func encodings(v string) []string {
	forms := []string{v, strings.TrimSpace(v)}
	for _, html := range []bool{true, false} {
		once := quoted(v, html) // in JSON, and below in JSON within a JSON string, or with escaped slashes
		forms = append(forms, once, quoted(once, html), strings.ReplaceAll(once, "/", `\/`))
	}
	for _, percent := range []string{url.QueryEscape(v), url.PathEscape(v), percentAll(v)} {
		forms = append(forms, percent, lowerPercent(percent))
	}
	for skip := range 3 { // the alignments of the value within the encoded bytes
		forms = append(forms, base64Core(base64.RawStdEncoding, v, skip), base64Core(base64.RawURLEncoding, v, skip))
	}
	hexadecimal := hex.EncodeToString([]byte(v))
	forms = append(forms, hexadecimal, strings.ToUpper(hexadecimal))
	long := forms[:0]
	for _, f := range forms {
		if len(f) >= MinSecret {
			long = append(long, f)
		}
	}
	return long
}

// quoted returns s as the content of a JSON string, without the quotes. html selects whether <, > and & are escaped,
// which encoding/json does by default.
func quoted(s string, html bool) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(html)
	_ = enc.Encode(s) // a string always marshals
	return strings.TrimSuffix(b.String(), "\n")[1 : b.Len()-2]
}

// percentAll percent-encodes every byte, as some clients do.
func percentAll(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteByte('%')
		b.WriteString(strings.ToUpper(hex.EncodeToString([]byte{s[i]})))
	}
	return b.String()
}

// lowerPercent writes the digits of percent-encoded bytes in lower case.
func lowerPercent(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], bytes.ToLower(b[i+1:i+3]))
			i += 2
		}
	}
	return string(b)
}

// base64Core returns the characters that s contributes to the base64 of a text in which skip bytes, modulo 3, precede
// s. It leaves out the characters at both ends that also encode bits of the bytes around s.
func base64Core(enc *base64.Encoding, s string, skip int) string {
	whole := enc.EncodeToString(append(make([]byte, skip), s...))
	return whole[(8*skip+5)/6 : 8*(skip+len(s))/6]
}
