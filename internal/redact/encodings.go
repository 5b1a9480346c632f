package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
)

// encodings returns the forms in which a value is usually written, each at least MinSecret bytes long.
func encodings(v string) []string {
	forms := []string{v, strings.TrimSpace(v)}
	for _, html := range []bool{true, false} {
		once := quoted(v, html)
		forms = append(forms, once, quoted(once, html), strings.ReplaceAll(once, "/", `\/`))
	}
	for _, percent := range []string{url.QueryEscape(v), url.PathEscape(v), percentAll(v)} {
		forms = append(forms, percent, lowerPercent(percent))
	}
	for skip := range 3 {
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

// quoted returns s as the inside of a JSON string. html selects whether <, > and & are escaped, as encoding/json does
// by default.
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

// base64Core returns the part of the encoding of s, preceded by skip bytes, that does not depend on the bytes around s.
func base64Core(enc *base64.Encoding, s string, skip int) string {
	whole := enc.EncodeToString(append(make([]byte, skip), s...))
	return whole[(8*skip+5)/6 : 8*(skip+len(s))/6]
}
