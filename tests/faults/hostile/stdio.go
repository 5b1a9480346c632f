package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
)

// batch is how many messages of an attack one write sends.
const batch = 64

// serveStdio answers the host's requests. While it attacks with pings it reads nothing.
func (s *server) serveStdio(ctx context.Context) error {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		if s.attack == "ping" && s.on.Load() && !s.until(ctx, false) {
			return nil
		}
		var req request
		if err := json.Unmarshal(in.Bytes(), &req); err != nil {
			return err
		}
		if req.Method == "tools/call" && s.attack == "elicit" && s.on.Load() {
			go s.interrogate(ctx, req)
			continue
		}
		s.write(append(answer(req), '\n'))
	}
	return in.Err()
}

// write writes to stdout. It fails if the host has ended, which closes stdout.
func (s *server) write(b []byte) bool {
	if len(b) == 1 {
		return true // no answer
	}
	s.out.Lock()
	defer s.out.Unlock()
	_, err := os.Stdout.Write(b)
	return err == nil
}

// attackStdio attacks whenever the attack is on, up to its bounds.
func (s *server) attackStdio(ctx context.Context) {
	if s.attack == "elicit" || s.attack == "call" {
		return // in a call
	}
	line := strings.Repeat("flood ", 100) + "\n"
	for bytesLeft := int64(mostBytes); s.until(ctx, true); {
		s.begin()
		var b bytes.Buffer
		for range batch {
			n := s.sent.Add(1)
			if s.attack == "stderr" {
				b.WriteString(line)
			} else {
				b.WriteString(s.message(n) + "\n")
			}
		}
		if bytesLeft -= int64(b.Len()); bytesLeft < 0 || s.sent.Load() > mostMessages {
			return
		}
		if s.attack == "stderr" {
			if _, err := os.Stderr.Write(b.Bytes()); err != nil {
				return
			}
		} else if !s.write(b.Bytes()) {
			return
		}
	}
}

// interrogate asks its questions in the middle of a call, and answers the call when the attack is over.
func (s *server) interrogate(ctx context.Context, req request) {
	s.begin()
	for n := range int64(questions) {
		s.sent.Add(1)
		if !s.write([]byte(s.message(n) + "\n")) {
			return
		}
	}
	if s.until(ctx, false) {
		s.write(append(answer(req), '\n'))
	}
}
