package tests

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/codec"
	"github.com/everturn/everturn/codec/codectest"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// spoken returns a text that must be readable only with the keys.
func spoken(what string) string { return "canary-" + what + "-61ac07" }

// TestCLIEncryptedTurnsLeaveNothingReadable puts a canary into everything that a turn consists of. Temporal's database
// and API, the journal, the other files and the logs have none of them; the commands show all.
func TestCLIEncryptedTurnsLeaveNothingReadable(t *testing.T) {
	t.Parallel()
	name := name(t)
	model := fakellm.Start(t, fakellm.Cases(
		fakellm.When(spoken("failing"), fakellm.Status(400, "invalid", spoken("failure"))),
		fakellm.When(spoken("scheduled"), fakellm.Text(spoken("news"))),
		fakellm.When(spoken("reply"), fakellm.Text(spoken("answer"))),
		fakellm.When("", fakellm.Steps(
			fakellm.Call("local_search_text", fmt.Sprintf(`{"query":%q}`, spoken("arguments"))).WithText(spoken("thought")),
			fakellm.Call("ask_user", fmt.Sprintf(`{"question":%q}`, spoken("asked"))))),
	))
	h := newUserFolder(t, asking(model)+"[policy]\nask = [\"local/search_text\"]\n"+
		"[encryption]\nkey_file = \".everturn/keys.json\"\njournal = true\n")
	h.write("notes.txt", "found: "+spoken("arguments")+" "+spoken("result"))
	h.everturn("keys", "new").exits(0)
	worker := h.worker()
	worker.says("worker polls")
	session := "encrypted-" + name
	h.everturn("run", "-s", session, "My "+spoken("question")).exits(6)
	open := historiesText(t, session) // while it waits, with what pending activities and markers hold
	h.everturn("approve", session, "1.0", "-y").exits(0)
	require.Eventually(t, func() bool {
		return strings.Contains(h.everturn("approvals").out.String(), spoken("asked"))
	}, within, 100*time.Millisecond)
	h.everturn("answer", session, spoken("reply")).exits(0)
	assert.Contains(t, h.everturn("attach", session).exits(0).out.String(), spoken("answer"))
	h.everturn("run", "-s", session+"-failed", spoken("failing")).exits(1)
	h.everturn("schedule", "create", name, "--every", "24h", "--session", session+"-news", spoken("scheduled")).exits(0)
	h.everturn("schedule", "trigger", name).exits(0)
	h.schedules(over(1))

	shown := h.everturn("show", "-o", "json", session).exits(0).out.String() +
		h.everturn("export", session).exits(0).out.String() + h.everturn("schedule", "list").exits(0).out.String() +
		h.everturn("show", "-o", "json", session+"-failed").exits(0).out.String()
	for _, what := range []string{"question", "arguments", "result", "thought", "asked", "reply", "answer", "failure",
		"scheduled"} {
		assert.Contains(t, shown, spoken(what), "with the keys, everything is there")
	}
	h.everturn("schedule", "delete", name).exits(0)

	worker.end()
	stored := open + worker.out.String() + worker.err.String() + temporalsFiles(t)
	for _, s := range []string{session, session + "-failed", session + "-news"} {
		assert.Contains(t, stored, s, "IDs stay readable")
		stored += historiesText(t, s) + described(t, s)
	}
	assert.False(t, strings.Contains(stored, "61ac07"), around(stored, "61ac07"))
	require.NoError(t, os.Remove(h.path("notes.txt")))
	assert.Empty(t, filesWith(t, h.dir, "61ac07", ""))

	assert.Contains(t, h.everturn("show", session, "--set", "encryption.journal=false").exits(3).err.String(),
		"journal = true")
	h.everturn("keys", "new", "--file", "other.json").exits(0)
	assert.Contains(t, h.everturn("show", session, "--set", "encryption.key_file=other.json").exits(3).err.String(),
		"unknown encryption key")
	h.everturn("journal", "copy", ".everturn/journal.db", "plain.db", "--set", "encryption.journal=false").exits(0)
	plain := h.everturn("show", session, "--set", "encryption.journal=false", "--set", "journal.path=plain.db").exits(0)
	assert.Contains(t, plain.out.String(), spoken("answer"))
}

// TestCLIRotatesKeysAndServesACodec makes and rotates keys as an operator does, and decrypts what each has encrypted
// over HTTP, as the Web UI does.
func TestCLIRotatesKeysAndServesACodec(t *testing.T) {
	t.Parallel()
	const origin = "http://ui.example:8080"
	h := newUserFolder(t, "[codec_server]\ntoken = \"codec-token-61ac07\"\norigin = \""+origin+"\"\n")
	assert.Contains(t, h.everturn("keys", "new").exits(3).err.String(), "--file")
	assert.Contains(t, h.everturn("codec", "serve").exits(3).err.String(), "key_file")
	h.write("agent.toml", string(must(os.ReadFile(h.path("agent.toml")))(t))+"[encryption]\nkey_file = \"keys.json\"\n")
	first := strings.TrimSpace(h.everturn("keys", "new").exits(0).out.String())
	assert.Contains(t, h.everturn("keys", "new").exits(3).err.String(), "exists")
	server := h.begin(nil, "codec", "serve", "--listen", "127.0.0.1:0")
	server.says("codec server listens")
	address := regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(server.err.String())[1]
	keys := must(codec.OpenFile(h.path("keys.json")))(t)
	decoded := func(p *commonpb.Payloads) string {
		req := must(http.NewRequestWithContext(t.Context(), "POST", "http://"+address+"/decode",
			strings.NewReader(string(must(protojson.Marshal(p))(t)))))(t)
		for k, v := range map[string]string{"Authorization": "Bearer codec-token-61ac07", "X-Namespace": "default",
			"Origin": origin, "Content-Type": "application/json"} {
			req.Header.Set(k, v)
		}
		res := must(http.DefaultClient.Do(req))(t)
		defer res.Body.Close()
		body := must(io.ReadAll(res.Body))(t)
		if strings.Contains(string(body), "unknown encryption key") {
			return "" // the server looks at its key file at most once a second
		}
		require.Equal(t, http.StatusOK, res.StatusCode, string(body))
		assert.Equal(t, origin, res.Header.Get("Access-Control-Allow-Origin"))
		var plain commonpb.Payloads
		require.NoError(t, protojson.Unmarshal(body, &plain))
		return string(plain.Payloads[0].Data)
	}
	old := must(keys.DataConverter("default").ToPayloads(spoken("old")))(t)
	assert.Contains(t, decoded(old), spoken("old"))

	second := strings.TrimSpace(h.everturn("keys", "add").exits(0).out.String())
	list := h.everturn("keys", "list").exits(0).out.String()
	assert.Regexp(t, first+` +encrypts and decrypts\n`+second+` +decrypts\n`, list)
	assert.Contains(t, h.everturn("keys", "promote", "12").exits(3).err.String(), "12")
	h.everturn("keys", "promote", second).exits(0)
	assert.Regexp(t, second+` +encrypts and decrypts\n`, h.everturn("keys", "list").exits(0).out.String())
	rotated := must(must(codec.OpenFile(h.path("keys.json")))(t).DataConverter("default").ToPayloads(spoken("new")))(t)
	require.Eventually(t, func() bool { return strings.Contains(decoded(rotated), spoken("new")) }, within,
		200*time.Millisecond, "the server reads the file again")
	assert.Contains(t, decoded(old), spoken("old"))
	info := must(os.Stat(h.path("keys.json")))(t)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	server.end()
	assert.Equal(t, 0, server.code())
	assert.Contains(t, server.err.String(), "who=token")
	assert.NotContains(t, server.err.String(), "61ac07")
}

// temporalsFiles returns the content of the server's database.
func temporalsFiles(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(os.TempDir(), "everturn-tests-*", "stack", "temporal.db*"))
	require.NoError(t, err)
	var all strings.Builder
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		all.Write(b)
	}
	return all.String()
}

// described returns what the server tells of a session's last run: memo, search attributes, summary.
func described(t *testing.T, session string) string {
	t.Helper()
	c, err := temporalconn.Dial(t.Context(), temporalconn.Options{Address: stack.Address})
	require.NoError(t, err)
	defer c.Close()
	d, err := c.DescribeWorkflowExecution(t.Context(), session, "")
	require.NoError(t, err)
	return d.String()
}

// encrypted sets a key file.
func encrypted(path string) func(*config.Config) {
	return func(c *config.Config) { c.Encryption.KeyFile = path }
}

// replayed replays an encrypted history as a worker with these keys does.
func replayed(t *testing.T, path string, events []*historypb.HistoryEvent) {
	t.Helper()
	keys, err := codec.OpenFile(path)
	require.NoError(t, err)
	dc := keys.WorkerDataConverter(temporalconn.DefaultNamespace)
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{
		DataConverter: dc, FailureConverter: codec.FailureConverter(dc)})
	require.NoError(t, err)
	replayer.RegisterWorkflowWithOptions(workflows.Turn, workflow.RegisterOptions{Name: workflows.TurnWorkflow})
	started := events[0].GetWorkflowExecutionStartedEventAttributes()
	require.NoError(t, replayer.ReplayWorkflowHistoryWithOptions(quiet, &historypb.History{Events: events},
		worker.ReplayWorkflowHistoryOptions{OriginalExecution: workflow.Execution{
			ID: started.GetWorkflowId(), RunID: started.GetOriginalExecutionRunId()}}))
}

// keysIn returns the IDs of the given keys that a history names.
func keysIn(events []*historypb.HistoryEvent, keys []codec.Key) (found []uint32) {
	all := fmt.Sprint(events)
	for _, k := range keys {
		if strings.Contains(all, fmt.Sprintf("value:\"%d\"", k.ID)) { // of the metadata codec.MetadataKeyID
			found = append(found, k.ID)
		}
	}
	return found
}

// TestEncryptionIsSwitchedOnWhileATurnRuns begins a turn in plain text, and ends it with workers and clients that
// encrypt.
func TestEncryptionIsSwitchedOnWhileATurnRuns(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Cases(
		fakellm.When(spoken("reply"), fakellm.Text(spoken("mixed"))),
		fakellm.When("", fakellm.Call("ask_user", `{"question":"Which?"}`))))
	stop := e.work()
	begun, err := e.dialled().Send(t.Context(), client.SendInput{Session: session(t),
		Message: turn.UserMessage{Text: "Look."}})
	require.NoError(t, err)
	e.waits(begun.ID, 1)
	stop()

	e.cfg.Encryption.KeyFile = codectest.File(t)
	e.work()
	c := e.dialled()
	pending, err := c.Pending(t.Context(), client.PendingInput{Session: session(t)})
	require.NoError(t, err)
	require.Len(t, pending, 1)
	require.NoError(t, c.Answer(t.Context(), client.DecideInput{Session: session(t), Request: pending[0].ID,
		Text: spoken("reply")}))
	assert.Equal(t, spoken("mixed"), e.ended(begun.ID).Answer)
	_, err = c.Wait(t.Context(), begun)
	require.NoError(t, err)

	events := e.events(session(t), begun.ID)
	assert.Zero(t, count(events, enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED))
	text := fmt.Sprint(events)
	assert.Contains(t, text, "Look.", "the beginning is plain")
	assert.Contains(t, text, codec.Encoding)
	assert.NotContains(t, text, "canary")
	replayed(t, e.cfg.Encryption.KeyFile, events)
}

// TestKeysAreRotatedUnderLoad rotates three times while two workers run turns for a client. No task fails, and every
// history can be read.
func TestKeysAreRotatedUnderLoad(t *testing.T) {
	t.Parallel()
	const turns = 30
	path := codectest.File(t)
	te := newEnv(t, fakellm.Steps(
		fakellm.Call("local_echo", `{"text":"a"}`), fakellm.Call("local_quick_echo", `{"text":"b"}`),
		fakellm.Text("Done.").Delay(20*time.Millisecond)), encrypted(path))
	te.work(withEcho()...)
	te.work(withEcho()...)
	c := te.dialled()
	var all sync.WaitGroup
	free, begun := make(chan struct{}, 5), make([]client.Turn, turns)
	for i := range turns {
		if i%8 == 7 { // in the middle of the turns that run
			added, err := codec.Add(path)
			require.NoError(t, err)
			require.NoError(t, codec.Promote(path, added.ID))
		}
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			var err error
			begun[i], err = c.Send(t.Context(), client.SendInput{Session: fmt.Sprintf("%s %d", session(t), i),
				Message: turn.UserMessage{Text: "Go."}})
			if assert.NoError(t, err) {
				res, err := c.Wait(t.Context(), begun[i])
				assert.NoError(t, err)
				assert.Equal(t, turn.StateCompleted, res.State)
			}
		})
	}
	all.Wait()
	keys, err := codec.List(path)
	require.NoError(t, err)
	require.Len(t, keys, 4)
	failures := codec.FailureConverter(must(codec.OpenFile(path))(t).DataConverter("default"))
	for _, b := range begun {
		events := te.events(b.Session, b.ID)
		for _, e := range events {
			failed := e.GetWorkflowTaskFailedEventAttributes()
			if failed == nil || failed.Cause == enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND { // an event came meanwhile
				continue
			}
			why := failures.FailureToError(failed.Failure).Error()
			const slow = "TMPRL1101" // on a busy machine, the SDK takes a workflow task of more than a second for a deadlock
			assert.Contains(t, why, slow, b.Session)
		}
		assert.NotEmpty(t, keysIn(events, keys))
		replayed(t, path, events)
	}
}

// TestAWaitingTurnContinuesWithRotatedKeys answers a turn whose history was encrypted with the former primary key, on a
// worker that has it not in memory.
func TestAWaitingTurnContinuesWithRotatedKeys(t *testing.T) {
	t.Parallel()
	path := codectest.File(t)
	e := newEnv(t, fakellm.Cases(fakellm.When("this", fakellm.Text("Done.")),
		fakellm.When("", fakellm.Call("ask_user", `{"question":"Which?"}`))), encrypted(path))
	stop := e.work()
	c := e.dialled()
	begun, err := c.Send(t.Context(), client.SendInput{Session: session(t), Message: turn.UserMessage{Text: "Look."}})
	require.NoError(t, err)
	asked := e.waits(begun.ID, 1)[0].ID
	stop()
	added, err := codec.Add(path)
	require.NoError(t, err)
	require.NoError(t, codec.Promote(path, added.ID))
	e.work()
	require.NoError(t, e.dialled().Answer(t.Context(), client.DecideInput{Session: session(t), Request: asked,
		Text: "this"}))
	res, err := c.Wait(t.Context(), begun)
	require.NoError(t, err, "the first client, which has opened the file before")
	assert.Equal(t, turn.StateCompleted, res.State)
	events := e.events(session(t), begun.ID)
	assert.Zero(t, count(events, enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED))
	keys, err := codec.List(path)
	require.NoError(t, err)
	assert.Len(t, keysIn(events, keys), 2, "its history names both keys")
	replayed(t, path, events)
}

// TestAWorkerWithoutTheKeyFailsTheTaskAndNotTheTurn begins a turn whose key the worker gets later.
func TestAWorkerWithoutTheKeyFailsTheTaskAndNotTheTurn(t *testing.T) {
	t.Parallel()
	workers, clients := codectest.File(t), codectest.File(t)
	te := newEnv(t, fakellm.Text("Done."), encrypted(workers))
	var log sink
	te.work(engine.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	te.cfg.Encryption.KeyFile = clients
	c := te.dialled()
	sent := make(chan client.Turn, 1)
	go func() {
		begun, err := c.Send(t.Context(), client.SendInput{Session: session(t),
			Message: turn.UserMessage{Text: spoken("question")}})
		assert.NoError(t, err, "it waits for the worker")
		sent <- begun
	}()
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "unknown encryption key") }, within,
		20*time.Millisecond)
	b, err := os.ReadFile(clients)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(workers, b, 0o600))
	begun := <-sent
	res, err := c.Wait(t.Context(), begun)
	require.NoError(t, err)
	assert.Equal(t, turn.StateCompleted, res.State)
	assert.NotContains(t, log.String(), "canary")
	failed := 0
	for _, e := range te.events(session(t), begun.ID) {
		if a := e.GetWorkflowTaskFailedEventAttributes(); a != nil {
			failed++
			assert.NotContains(t, a.String(), "canary")
		}
	}
	assert.Positive(t, failed, "the task failed, and the turn did not")
}

// TestAToolsWorkerWithoutTheKeyRunsTheCallWhenItHasIt gives the worker of the tools the key of the turn after it got
// the call. The call runs once.
func TestAToolsWorkerWithoutTheKeyRunsTheCallWhenItHasIt(t *testing.T) {
	t.Parallel()
	tools, turns := codectest.File(t), codectest.File(t)
	e := newEnv(t, fakellm.Steps(fakellm.Call("local_echo", `{"text":"a"}`), fakellm.Text("Done.")), encrypted(turns))
	role(config.RoleTurns, config.RoleInference)(&e.cfg)
	e.work(withEcho()...)
	var log sink
	role(config.RoleTools)(&e.cfg)
	e.cfg.Encryption.KeyFile = tools
	e.work(append(withEcho(), engine.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))...)
	e.cfg.Encryption.KeyFile = turns
	c := e.dialled()
	begun, err := c.Send(t.Context(), client.SendInput{Session: session(t), Message: turn.UserMessage{Text: "Go."}})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "unknown encryption key") }, within,
		20*time.Millisecond)
	b, err := os.ReadFile(turns)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(tools, b, 0o600))
	res, err := c.Wait(t.Context(), begun)
	require.NoError(t, err)
	assert.Equal(t, turn.StateCompleted, res.State)
	call := e.calls(begun.ID, 1)[0]
	assert.Equal(t, turn.OutcomeOK, call.Outcome)
	assert.Equal(t, 1, call.Attempt)
}

// must returns a value that a call has returned without an error.
func must[V any](v V, err error) func(*testing.T) V {
	return func(t *testing.T) V {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}
