package httpapi

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/workflows/turn"
)

// harness is a server with a journal and without Temporal.
type harness struct {
	*httptest.Server
	t       *testing.T
	journal *journal.DB
}

func serve(t *testing.T, change ...func(*config.Config)) *harness {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), sqlite.Options{Synchronous: "normal"})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	cfg := config.Default()
	for _, c := range change {
		c(&cfg)
	}
	s, err := New(t.Context(), Options{Client: client.New(nil, client.Options{Journal: db}), Config: cfg,
		Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	h := &harness{httptest.NewServer(s), t, db}
	t.Cleanup(h.Close)
	return h
}

// token returns the secret of a new token of a tenant.
func (h *harness) token(tenant string, rights ...client.Right) string {
	h.t.Helper()
	_, secret, err := h.journal.Tenant(tenant).CreateToken(h.t.Context(),
		client.CreateTokenInput{Principal: "ann", Rights: rights})
	require.NoError(h.t, err)
	return secret
}

// turn runs a turn of a session in the journal.
func (h *harness) turn(tenant, session, id string) {
	h.t.Helper()
	j := h.journal.Tenant(tenant)
	_, err := j.Begin(h.t.Context(), turn.BeginInput{Tenant: tenant, Session: session, Turn: id,
		Message: turn.UserMessage{ID: id, Text: "go"}, At: time.Now()})
	require.NoError(h.t, err)
	_, err = j.Finish(h.t.Context(), turn.FinishInput{Session: session, Turn: id,
		Result: turn.Result{State: turn.StateCompleted}, At: time.Now()})
	require.NoError(h.t, err)
}

// send sends a request and returns the status and the body.
func (h *harness) send(method, path, token, body string, headers ...string) (int, string) {
	h.t.Helper()
	res, text := h.sendWith(http.DefaultClient, method, path, token, body, headers...)
	return res.StatusCode, text
}

// sendWith is send by a client.
func (h *harness) sendWith(c *http.Client, method, path, token, body string, headers ...string) (*http.Response,
	string) {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.URL+path, strings.NewReader(body))
	require.NoError(h.t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	res, err := c.Do(req)
	require.NoError(h.t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(h.t, err)
	return res, string(b)
}

// code returns the code of a problem.
func code(t *testing.T, body string) string {
	t.Helper()
	var p problemBody
	require.NoError(t, json.Unmarshal([]byte(body), &p), body)
	return p.Error.Code
}

// path returns the path of a route for a session "s".
func (rt route) pathOf() string {
	return strings.NewReplacer("{session}", "s", "{turn}", "t", "{request}", "1.0", "{schedule}", "n", "{scope}",
		"openai").
		Replace(rt.path)
}

func (rt route) query() string {
	if rt.event == reflect.TypeFor[turn.Event]() {
		return "?follow=false"
	}
	return ""
}

// Each route answers a caller with its right, and no other: neither one without a token, nor one whose token has all
// other rights.
func TestRights(t *testing.T) {
	h := serve(t)
	h.turn("", "s", "t")
	all := journal.Rights()
	for _, rt := range routes {
		t.Run(rt.name, func(t *testing.T) {
			h := &harness{h.Server, t, h.journal}
			status, body := h.send(rt.method, rt.pathOf()+rt.query(), "", "")
			if rt.right == "" {
				assert.NotEqual(t, http.StatusUnauthorized, status)
				return
			}
			assert.Equal(t, http.StatusUnauthorized, status)
			assert.Equal(t, "no_token", code(t, body))
			var others []client.Right
			for _, r := range all {
				if r != rt.right {
					others = append(others, r)
				}
			}
			status, body = h.send(rt.method, rt.pathOf()+rt.query(), h.token("", others...), "")
			assert.Equal(t, http.StatusForbidden, status)
			assert.Equal(t, "right_missing", code(t, body))
			status, _ = h.send(rt.method, rt.pathOf()+rt.query(), h.token("", rt.right), "")
			assert.NotContains(t, []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusInternalServerError}, status)
		})
	}
}

// A caller of another tenant finds nothing of a session.
func TestTenants(t *testing.T) {
	h := serve(t)
	h.turn("acme", "s", "t")
	own, other := h.token("acme", client.RightRead), h.token("", client.RightRead)
	for _, path := range []string{"", "/history", "/messages", "/events?follow=false&turn=t", "/turns/t", "/export"} {
		status, body := h.send("GET", "/v1/sessions/s"+path, own, "")
		assert.Equal(t, http.StatusOK, status, "%s: %s", path, body)
		status, body = h.send("GET", "/v1/sessions/s"+path, other, "")
		assert.Contains(t, []int{http.StatusNotFound, http.StatusServiceUnavailable}, status, "%s: %s", path, body)
		assert.NotContains(t, body, "acme")
	}
	_, body := h.send("GET", "/v1/sessions", other, "")
	assert.JSONEq(t, `{"sessions":[]}`, body)
}

// An event of another session is no place to go on from, although the caller may read that session, too.
func TestACursorOfAnotherSession(t *testing.T) {
	h := serve(t)
	h.turn("", "s", "t")
	h.turn("", "other", "u")
	token := h.token("", client.RightRead)
	status, body := h.send("GET", "/v1/sessions/s/events?follow=false&after=t/0", token, "")
	assert.Equal(t, http.StatusOK, status, body)
	assert.Contains(t, body, "id: t/1")
	status, body = h.send("GET", "/v1/sessions/s/events?follow=false&after=u/0", token, "")
	assert.Equal(t, http.StatusBadRequest, status, body)
	assert.Equal(t, "invalid", code(t, body))
}

func TestEndedTokens(t *testing.T) {
	h := serve(t)
	secret := h.token("", client.RightRead)
	list, err := h.journal.Tokens(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.journal.RevokeToken(t.Context(), list[0].ID))
	status, body := h.send("GET", "/v1/sessions", secret, "")
	assert.Equal(t, http.StatusUnauthorized, status)
	assert.Equal(t, "token_ended", code(t, body))
	status, body = h.send("GET", "/v1/sessions", "evt_wrong", "")
	assert.Equal(t, http.StatusUnauthorized, status)
	assert.Equal(t, "wrong_token", code(t, body))
}

// Requests that are wrong get an error that names the field, and no more.
func TestWrongRequests(t *testing.T) {
	h := serve(t)
	token := h.token("", journal.Rights()...)
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		param              string
	}{
		"unknown parameter": {"GET", "/v1/sessions?limt=3", "", 400, "limt"},
		"no number":         {"GET", "/v1/sessions?limit=x", "", 400, "limit"},
		"too many":          {"GET", "/v1/sessions?limit=1001", "", 400, "limit"},
		"unknown field":     {"POST", "/v1/sessions/s/messages", `{"txt":"a"}`, 400, "txt"},
		"wrong type":        {"POST", "/v1/sessions/s/messages", `{"text":1}`, 400, "text"},
		"no JSON":           {"POST", "/v1/sessions/s/messages", `{`, 400, ""},
		"more":              {"POST", "/v1/sessions/s/messages", `{"text":"a"}{}`, 400, ""},
		"a list":            {"POST", "/v1/sessions/s/messages", `[]`, 400, ""},
		"deep": {"POST", "/v1/sessions/s/messages", `{"context":` + strings.Repeat("[", 100) +
			strings.Repeat("]", 100) + "}", 400, ""},
		"no decision":   {"POST", "/v1/sessions/s/turns/t/requests/1.0", `{}`, 400, ""},
		"two decisions": {"POST", "/v1/sessions/s/turns/t/requests/1.0", `{"allow":true,"text":"a"}`, 400, ""},
		"no hash":       {"POST", "/v1/sessions/s/turns/t/requests/1.0", `{"allow":true}`, 400, "arguments_hash"},
		"no such route": {"GET", "/v2/sessions", "", 404, ""},
		"wrong cursor":  {"GET", "/v1/sessions/s/events?after=7", "", 400, "after"},
		"wrong time":    {"GET", "/v1/usage?since=yesterday", "", 400, "since"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &harness{h.Server, t, h.journal}
			status, body := h.send(c.method, c.path, token, c.body)
			assert.Equal(t, c.status, status, body)
			var p problemBody
			require.NoError(t, json.Unmarshal([]byte(body), &p))
			assert.Equal(t, c.param, p.Error.Param)
			assert.NotEmpty(t, p.Error.Message)
		})
	}
}

// A page of another origin, a page that reaches the server by another name, and a body that is too large are refused.
func TestRefusals(t *testing.T) {
	h := serve(t, func(c *config.Config) { c.HTTP.AllowedOrigins = []string{"https://app.example.com"} })
	token := h.token("", journal.Rights()...)
	status, body := h.send("POST", "/v1/sessions/s/stop", token, "", "Origin", "https://evil.example")
	assert.Equal(t, http.StatusForbidden, status)
	assert.Equal(t, "cross_origin", code(t, body))
	status, body = h.send("POST", "/v1/sessions/s/stop", token, "", "Origin", "https://app.example.com")
	assert.Equal(t, http.StatusServiceUnavailable, status, body) // there is no Temporal
	status, body = h.send("GET", "/v1/sessions", token, "", "Host", "evil.example")
	assert.Equal(t, http.StatusMisdirectedRequest, status)
	assert.Equal(t, "wrong_host", code(t, body))
	status, body = h.send("GET", "/healthz", "", "", "Host", "10.0.0.7:7280")
	assert.Equal(t, http.StatusOK, status, body) // a probe
	status, body = h.send("POST", "/v1/sessions/s/messages", token, `{"text":"`+strings.Repeat("a", maxBody)+`"}`)
	assert.Equal(t, http.StatusRequestEntityTooLarge, status)
	assert.Equal(t, "too_large", code(t, body))
	status, body = h.send("POST", "/v1/sessions/s/messages", token, "text=a", "Content-Type",
		"application/x-www-form-urlencoded")
	assert.Equal(t, http.StatusUnsupportedMediaType, status, body)
}

// A principal that sends too much is told when to go on; others are not held up.
func TestRateOfAPrincipal(t *testing.T) {
	h := serve(t, func(c *config.Config) { c.HTTP.RequestsPerSecond = 1 })
	token, other := h.token("", client.RightRead), h.token("acme", client.RightRead)
	limited := 0
	for range 5 {
		status, body := h.send("GET", "/v1/sessions", token, "")
		if status == http.StatusTooManyRequests {
			limited++
			assert.Equal(t, "rate_limited", code(t, body))
		}
	}
	assert.GreaterOrEqual(t, limited, 2)
	status, _ := h.send("GET", "/v1/sessions", other, "")
	assert.Equal(t, http.StatusOK, status)
}

// Every route of the server is in the document, with the parameters that it takes.
func TestOpenAPI(t *testing.T) {
	h := serve(t)
	status, body := h.send("GET", "/openapi.json", "", "")
	require.Equal(t, http.StatusOK, status)
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string
			Parameters  []struct{ Name string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(body), &doc))
	seen := map[string]bool{}
	for _, rt := range routes {
		op, ok := doc.Paths[rt.path][strings.ToLower(rt.method)]
		require.True(t, ok, "%s %s", rt.method, rt.path)
		assert.Len(t, op.Parameters, len(parameters(rt.in)), rt.path)
		assert.False(t, seen[op.OperationID], "%s is there twice", op.OperationID)
		seen[op.OperationID] = true
		for _, p := range parameters(rt.in) { // every kind of field can be read
			require.NotPanics(t, func() { _ = setText(reflect.New(p.field.Type).Elem(), "1") }, p.name)
		}
	}
}

// What takes longer than the limits for reading a request and for writing a response is answered all the same.
func TestALongAnswer(t *testing.T) {
	h := serve(t)
	_, err := h.journal.Begin(t.Context(), turn.BeginInput{Session: "s", Turn: "t",
		Message: turn.UserMessage{ID: "m", Text: "go"}, At: time.Now()})
	require.NoError(t, err)
	s, err := New(t.Context(), Options{Client: client.New(nil, client.Options{Journal: h.journal}), Config: config.Default(),
		Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(s)
	server.Config = s.http()
	server.Config.ReadTimeout, server.Config.WriteTimeout = 200*time.Millisecond, 200*time.Millisecond
	server.Start()
	t.Cleanup(server.Close)
	long := &harness{server, t, h.journal}
	status, body := long.send("GET", "/v1/sessions/s/turns/t?wait=1", h.token("", client.RightRead), "")
	assert.Equal(t, http.StatusOK, status, body)
	assert.Contains(t, body, `"running"`)
}
