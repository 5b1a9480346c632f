package httpapi

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
)

// FuzzDecode decodes bodies of a message: the result is a message or a problem of the caller.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"text":"a","limits":{"max_steps":3},"attachments":[{"type":"image/png","data":"AAAA"}]}`), "k")
	f.Add([]byte(`{"text":"a","temperature":1e400}`), "")
	f.Add([]byte("{\"text\":\"\xff\"}"), "\x00")
	f.Fuzz(func(t *testing.T, body []byte, query string) {
		r := httptest.NewRequest(http.MethodPost, "/v1/sessions/s/messages", bytes.NewReader(body))
		r.URL.RawQuery = query
		r.Header.Set("Content-Type", "application/json")
		var in messageInput
		if err := decode(r, &in); err != nil {
			if p := asProblem(err); p.status >= http.StatusInternalServerError || p.message == "" {
				t.Fatalf("%d %s", p.status, p.message)
			}
		}
	})
}
