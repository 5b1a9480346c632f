package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/internal/redact"
)

func TestFetch(t *testing.T) {
	mux := http.NewServeMux()
	page := func(path, kind, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			fmt.Fprint(w, body)
		})
	}
	page("/page", "text/html; charset=utf-8", "<html><head><title>T</title><style>x{}</style><body><h1>One &amp; two</h1>"+
		"<script>alert('no')</script><p>See <a href='https://example.org/x'>this\n page</a>.</p>")
	page("/latin", "text/plain; charset=iso-8859-1", "caf\xe9")
	page("/json", "application/json", `{"a":1}`)
	page("/image", "image/png", "\x89PNG\x00")
	page("/large", "text/plain", strings.Repeat("x", maxBody+10))
	mux.HandleFunc("/to", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("at"), http.StatusFound)
	})
	mux.Handle("/loop", http.RedirectHandler("/loop", http.StatusFound))
	s := httptest.NewServer(mux)
	defer s.Close()
	here := Options{Networks: []string{"127.0.0.0/8"}}
	get := func(path string) (string, error) { return here.fetch(t.Context(), input{URL: s.URL + path}) }
	text, err := get("/to?at=/page")
	require.NoError(t, err)
	assert.Equal(t, "T\nOne & two\nSee this page (https://example.org/x) .", text)
	for path, want := range map[string]string{"/latin": "café", "/json": `{"a":1}`} {
		text, err := get(path)
		require.NoError(t, err)
		assert.Equal(t, want, text)
	}
	text, err = get("/large")
	require.NoError(t, err)
	assert.Less(t, len(text), maxText+200)
	assert.Contains(t, text, "[cut:")
	for path, why := range map[string]string{"/image": "not text", "/none": "status 404", "/loop": "more than",
		"/to?at=file:///etc/passwd": "no address", "/to?at=ftp://127.0.0.1/x": "https"} {
		_, err := get(path)
		assert.ErrorContains(t, err, why, path)
	}
}

// TestNoPartOfASecretIsFetched checks that a secret in a page is blanked before the page is cut.
func TestNoPartOfASecretIsFetched(t *testing.T) {
	const key = "sk-test-SECRETKEY-0123456789"
	for name, at := range map[string]int{"/error": 2000, "/text": maxText, "/body": maxBody} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			if name == "/error" {
				w.WriteHeader(http.StatusNotFound)
			}
			fmt.Fprint(w, strings.Repeat("x", at-10)+key)
		}))
		defer s.Close()
		o := Options{Networks: []string{"127.0.0.0/8"}, secrets: redact.New()}
		o.secrets.Add(key)
		text, err := o.fetch(t.Context(), input{URL: s.URL + name})
		if err != nil {
			text = err.Error()
		}
		assert.Greater(t, len(text), 1000)
		assert.False(t, strings.Contains(text, "sk-"), name)
	}
}

// TestNothingPrivateIsFetched asks for this machine and for private networks, directly and by a redirect.
func TestNothingPrivateIsFetched(t *testing.T) {
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer s.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
	for _, address := range []string{s.URL, "http://localhost:" + port, "https://127.0.0.1:" + port,
		"http://[::1]:" + port,
		"https://0.0.0.0:" + port, "https://127.1:" + port, "https://10.0.0.1/", "https://169.254.169.254/latest/meta-data/",
		"https://[fd00::1]/", "http://example.org/", "file:///etc/passwd", "https://user:pw@example.org/", "", "example.org",
		"https://" + strings.Repeat("x", maxURL)} {
		_, err := Options{}.fetch(t.Context(), input{URL: address})
		assert.Error(t, err, address)
	}
	assert.Zero(t, asked)
	elsewhere := httptest.NewServer(http.RedirectHandler("https://10.0.0.1/", http.StatusFound))
	defer elsewhere.Close()
	all := Options{Networks: []string{"127.0.0.0/8"}, Hosts: []string{"*"}}
	_, err := all.fetch(t.Context(), input{URL: elsewhere.URL})
	require.ErrorContains(t, err, "10.0.0.1")
}

// TestARedirectToAHostThatIsNotListedIsNotFollowed checks that an approval for one host is none for the host that it
// redirects to.
func TestARedirectToAHostThatIsNotListedIsNotFollowed(t *testing.T) {
	asked := 0
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { asked++ }))
	defer other.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(other.URL, "http://"), ":")
	s := httptest.NewServer(http.RedirectHandler("http://localhost:"+port+"/?q=secret", http.StatusFound))
	defer s.Close()
	o := Options{Networks: []string{"127.0.0.0/8", "::1/128"}}
	_, err := o.fetch(t.Context(), input{URL: s.URL})
	require.ErrorContains(t, err, "localhost:"+port+"/?q=secret")
	assert.Zero(t, asked)
	o.Hosts = []string{"localhost"}
	_, err = o.fetch(t.Context(), input{URL: s.URL})
	require.NoError(t, err)
	assert.Equal(t, 1, asked)
}
