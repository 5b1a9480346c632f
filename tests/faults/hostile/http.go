package main

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// handler is the server over streamable HTTP.
func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /mcp", s.post)
	mux.HandleFunc("GET /mcp", s.get)
	mux.HandleFunc("DELETE /mcp", func(http.ResponseWriter, *http.Request) {})
	return mux
}

func (s *server) post(w http.ResponseWriter, r *http.Request) {
	var req request
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch {
	case req.Method == "" && s.on.Load(): // the reply to a ping
		s.held.Add(1)
		s.until(r.Context(), false)
		s.held.Add(-1)
		w.WriteHeader(http.StatusAccepted)
	case req.ID == nil || req.Method == "":
		w.WriteHeader(http.StatusAccepted)
	case req.Method == "tools/call" && answers[s.attack] != nil && s.on.Load():
		s.begin()
		answers[s.attack](w, req)
	case req.Method == "tools/call" && s.attack == "call" && s.on.Load():
		s.stream(w, r)
		fmt.Fprintf(w, "event: message\ndata: %s\n\n", answer(req))
	default:
		w.Header().Set("Content-Type", "application/json")
		if req.Method == "initialize" {
			w.Header().Set("Mcp-Session-Id", "hostile")
		}
		_, _ = w.Write(answer(req)) // the host may be gone
	}
}

// get serves the stream on which the server may send its own requests.
func (s *server) get(w http.ResponseWriter, r *http.Request) {
	openStream(w)
	for s.attack == "ping" && s.until(r.Context(), true) {
		s.stream(w, r)
	}
	<-r.Context().Done()
}

func openStream(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush() // the host may be gone
}

// stream sends pings as events until the attack is over, as long as fewer than mostHeld replies are held back.
func (s *server) stream(w http.ResponseWriter, r *http.Request) {
	if w.Header().Get("Content-Type") == "" {
		openStream(w)
	}
	s.begin()
	for s.on.Load() && r.Context().Err() == nil {
		if s.held.Load() >= mostHeld || s.sent.Load() > mostMessages {
			s.until(r.Context(), false)
			return
		}
		if _, err := fmt.Fprintf(w, "event: message\ndata: %s\n\n", s.message(s.sent.Add(1))); err != nil {
			return
		}
		if http.NewResponseController(w).Flush() != nil {
			return
		}
	}
}
