package main

import (
	"errors"
	"os"
)

// maxLine bounds what a person types at once, in bytes. Terminals hold back no more than 4,096 (termios(3)).
const maxLine = 64 << 10

// readLine reads up to the next newline and nothing behind it, so that a later reader misses nothing.
func readLine(f *os.File) (string, error) {
	var line []byte
	b := make([]byte, 1)
	for len(line) < maxLine {
		n, err := f.Read(b)
		switch {
		case n == 1 && b[0] == '\n':
			return string(line), nil
		case n == 1:
			line = append(line, b[0])
		case err != nil:
			return "", err
		}
	}
	return "", errors.New("the line is too long")
}
