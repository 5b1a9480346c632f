package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	mib = 1 << 20
	// together is the interval of the moments at which the attack "results" answers.
	together = 2 * time.Second
)

// answers are the attacks that consist of answers to calls.
var answers = map[string]func(http.ResponseWriter, request){
	"headers": func(w http.ResponseWriter, req request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		var b bytes.Buffer
		b.WriteString("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
		for i := 0; b.Len() < 9*mib; i++ {
			fmt.Fprintf(&b, "X%d:\r\n", i)
		}
		fmt.Fprintf(&b, "Connection: close\r\n\r\n%s", answer(req))
		_, _ = c.Write(b.Bytes()) // the host may be gone
	},
	"case": func(w http.ResponseWriter, req request) {
		w.Header().Set("Content-Type", "Text/Event-Stream")
		fmt.Fprintf(w,
			": \"\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[],\"structuredContent\":{\"a\":[{}%s]}}}\n\n",
			req.ID, strings.Repeat(",{}", 5*mib))
	},
	"line": func(w http.ResponseWriter, _ request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "%s\n\n", bytes.Repeat([]byte{1}, 15*mib))
	},
	"error": func(w http.ResponseWriter, _ request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusTeapot)
		line := ":" + strings.Repeat("a", mib) + "\n\n"
		for range 1024 {
			if _, err := fmt.Fprint(w, line); err != nil {
				return
			}
		}
	},
	"results": func(w http.ResponseWriter, req request) {
		text := fmt.Sprintf("poked %s ", req.Params.Arguments.Text) + strings.Repeat("ab ", 5*mib)
		time.Sleep(time.Until(time.Now().Truncate(together).Add(together)))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(reply(req, fmt.Sprintf(`{"content":[{"type":"text","text":"%s"}]}`, text))) // the host may be gone
	},
}
