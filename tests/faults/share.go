package main

import "fmt"

// share is one in of the elements of a list, or all of them if of is 0. The number says which: of numbers in a row are
// the whole list.
type share struct{ number, of int }

// String implements flag.Value.
func (s *share) String() string { return fmt.Sprintf("%d/%d", s.number, s.of) }

// Set implements flag.Value.
func (s *share) Set(text string) error {
	var end string
	n, _ := fmt.Sscanf(text, "%d/%d%s", &s.number, &s.of, &end)
	if n != 2 || s.number < 0 || s.of < 1 {
		return fmt.Errorf("%q is no share: write it like 41/3", text)
	}
	return nil
}

// some returns the share's elements of a list.
func some[T any](s share, all []T) (out []T) {
	for i, one := range all {
		if s.of == 0 || i%s.of == s.number%s.of {
			out = append(out, one)
		}
	}
	return out
}
