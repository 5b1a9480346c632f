package childproc

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// stretch turns short inputs into long lines: each ~ stands for n%150_000 bytes.
func stretch(data []byte, n uint32) []byte {
	return bytes.ReplaceAll(data, []byte("~"), bytes.Repeat([]byte("x"), int(n%150_000)))
}

// FuzzFrames checks that, however the pipe splits a server's output, Frames passes on every valid line up to the first
// invalid one and nothing else. The stream ends with one of the documented errors, permanently. A line without end
// fails at the limit and is not buffered further.
func FuzzFrames(f *testing.F) {
	const call = `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n"
	for _, s := range []string{
		call, "Welcome!\n\x1b[2J\n" + call, "\r\n \t\n[1]\r\n" + call, call + `{"a":` + "\n" + call, call + "{} {}\n" + call,
		"{}", `{"a":`, "\xff\xfe" + call,
		strings.Repeat("noise\n", 65) + call, strings.Repeat("noise\n", 64) + call, "\x00\n" + call,
		"Content-Length: 37\r\n\r\n" + call, "{\"a\":\"\x80\"}\n", "\xef\xbb\xbf" + call,
		"{\"~\":1}\n" + call, "~\n" + call, "{\"" + strings.Repeat("~", 10), "null\n\"x\"\n1\n[]\n",
		call[:len(call)-1] + "\r" + call, strings.Repeat("[", 20_000) + "\n",
	} {
		f.Add([]byte(s), uint32(70_000), uint16(100), uint16(3))
		f.Add([]byte(s), uint32(10), uint16(0), uint16(4096))
	}
	f.Fuzz(func(t *testing.T, data []byte, times uint32, limit, cut uint16) {
		data = stretch(data[:min(len(data), 1<<16)], times)
		data = data[:min(len(data), 1<<20)]
		longest := int(limit)
		if longest == 0 {
			longest = 100_000 // longer than the buffer
		}
		want, wantNoise, wantErr := expected(data, longest)
		out, noise, taken, err := readFrames(t, data, longest, int(cut)+1)
		require.Equal(t, want, out)
		require.Equal(t, wantNoise, noise)
		require.ErrorIs(t, err, wantErr)
		if errors.Is(err, ErrFrameTooLong) {
			require.LessOrEqual(t, taken, len(out)+len(noise)+longest+(64<<10)+(64<<10)+int(cut)+1+skippable(data),
				"the line was read on past the limit")
		}
	})
}

// skippable returns the number of bytes that may be read without being passed on or kept: white space, and noise after
// its excerpt.
func skippable(data []byte) int {
	n := 0
	for line := range bytes.Lines(data) {
		if text := bytes.TrimSpace(line); len(text) == 0 || text[0] != '{' && text[0] != '[' {
			n += len(line)
		} else {
			n += len(line) - len(text)
		}
	}
	return n
}

// expected computes the documented result from the whole output.
func expected(data []byte, limit int) (out, noise string, err error) {
	var b, n strings.Builder
	skipped := 0
	for line := range bytes.Lines(data) {
		text := bytes.TrimSpace(line)
		switch {
		case len(line) > limit:
			return b.String(), n.String(), ErrFrameTooLong
		case len(text) == 0:
		case text[0] != '{' && text[0] != '[':
			skipped++
			n.WriteString(string(text[:min(len(text), 512)]) + "\n")
			if skipped > 64 {
				return b.String(), n.String(), ErrNoise
			}
		case !json.Valid(text):
			return b.String(), n.String(), ErrFrameBroken
		default:
			b.WriteString(string(text) + "\n")
		}
	}
	return b.String(), n.String(), io.EOF
}

// readFrames writes data into a pipe in pieces of cut bytes and reads frames from it. taken is the number of bytes that
// the pipe accepted before the reader closed it.
func readFrames(t *testing.T, data []byte, limit, cut int) (out, noise string, taken int, err error) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	wrote := make(chan int)
	go func() {
		n, failed := 0, error(nil)
		for n < len(data) && failed == nil {
			var k int
			k, failed = w.Write(data[n:min(n+cut, len(data))])
			n += k
		}
		_ = w.Close()
		wrote <- n
	}()
	var kept bytes.Buffer
	frames := NewFrames(r, limit, &kept)
	var b strings.Builder
	buf := make([]byte, cut)
	for err == nil {
		var n int
		n, err = frames.Read(buf)
		b.Write(buf[:n])
	}
	n, again := frames.Read(buf)
	require.Zero(t, n, "nothing follows the end")
	require.Equal(t, err, again, "an end stays")
	require.NoError(t, frames.Close())
	return b.String(), kept.String(), <-wrote, err
}
