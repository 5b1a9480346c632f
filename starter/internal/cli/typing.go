package cli

import (
	"errors"
	"os"
)

// maxLine bounds the length of a typed line, in bytes. A terminal buffers at most 4,096 bytes (termios(3)).
const maxLine = 64 << 10

// readLine reads up to the next newline and nothing after it, so that a later reader misses nothing.
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
