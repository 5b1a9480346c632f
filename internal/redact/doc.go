// Package redact redacts secrets in text: known values, such as API keys, in their usual encodings, and every match of
// the configured patterns. A worker has one Redactor.
//
// The usual encodings of a value are: the value itself, JSON strings, percent-encoding, hexadecimal, and base64 in both
// alphabets at any byte alignment. Characters that a screen does not show (package invisible) do not hide a value or a
// match. The package protects against values that are repeated in text. It does not protect against a party that knows
// a secret and exfiltrates it in another encoding.
package redact
