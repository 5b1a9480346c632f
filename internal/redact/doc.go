// Package redact blanks secrets in text: known values, such as API keys, in their usual encodings, and whatever the
// configured patterns match. One Redactor serves a whole worker.
//
// The usual encodings of a value are: the value itself, JSON strings, percent-encoding, hexadecimal, and base64 in both
// alphabets at any byte alignment. Characters that a screen does not show (package invisible) do not hide a value
// or a match. A party that knows a secret and wants to smuggle it out can use another encoding; this package protects
// against values that are repeated, not against that.
package redact
