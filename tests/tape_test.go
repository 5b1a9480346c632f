package tests

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/tests/loopback"
	"github.com/everturn/everturn/workflows/turn"
)

var (
	tapeTurns   = flag.Int("tape-turns", 12, "how many turns are recorded")
	tapeReplays = flag.Int("tape-replays", 2, "how often they are replayed")
)

// told is what a user sees of a turn.
type told struct {
	state  turn.State
	reason turn.FinishReason
	code   turn.Code
	answer string
	text   string
	usage  turn.Usage
	kinds  map[turn.EventKind]int
}

// tell runs turns whose models call tools, refuse, are overloaded, cut their streams and reason, over all wire APIs.
func tell(t *testing.T, e *env, name string, n int) (out []told) {
	t.Helper()
	stop := e.work(withEcho()...)
	defer stop()
	for i := range n {
		in := fmt.Sprintf("Case %d of %d.", i%5, i)
		run := e.begin(fmt.Sprintf("%s-%d", name, i), in, nil)
		var one told
		if i%5 == 4 {
			app, res := e.failure(run)
			one.state, one.reason, one.code = res.State, res.FinishReason, turn.Code(app.Type())
		} else {
			res := e.result(run)
			one = told{state: res.State, reason: res.FinishReason, answer: res.Answer, usage: res.Usage}
		}
		rec, err := e.journal.Session(t.Context(), fmt.Sprintf("%s-%d", name, i))
		require.NoError(t, err)
		one.text, one.kinds, _ = e.story(rec.LastTurn.ID)
		// How text is cut into events depends on time, and so does whether a stream that breaks off has shown any yet.
		delete(one.kinds, turn.EventTextDelta)
		delete(one.kinds, turn.EventAttemptRestarted)
		out = append(out, one)
	}
	return out
}

// TestATapeReplaysOffline records turns over the three wire APIs, and replays them with providers that cannot be
// reached: every turn has the same result, text, usage and events. A request that is not on the tape ends its turn with
// an error that names it.
func TestATapeReplaysOffline(t *testing.T) {
	for _, api := range []turn.API{turn.APIChat, turn.APIResponses, turn.APIMessages} {
		t.Run(string(api), func(t *testing.T) {
			t.Parallel()
			echo := fakellm.Call("local_quick_echo", `{"text":"sk-the-key-of-the-tape"}`).Reasoning("I echo.")
			script := fakellm.Cases(
				fakellm.When("Case 0", fakellm.Steps(echo, fakellm.Text("Echoed.").Usage(10, 2, 0))),
				fakellm.When("Case 1", fakellm.Attempts(fakellm.Status(500, "server_error", "try again"), fakellm.Text("Late."))),
				fakellm.When("Case 2", fakellm.Attempts(fakellm.Text("one two three four").CutAfter(2), fakellm.Text("Whole."))),
				fakellm.When("Case 3", fakellm.Text("no").Finish("content_filter")),
				fakellm.When("Case 4", fakellm.Status(400, "invalid_request_error", "no such thing")))
			folder := filepath.Join(t.TempDir(), "tape")
			over := func(mode string) func(*config.Config) {
				return func(c *config.Config) {
					c.LLM.Provider, c.LLM.Model, c.LLM.Tape = config.ProviderAuto, "mine:thinker", mode+":"+folder
					c.Providers = []config.ModelProvider{{ID: "mine", API: api, BaseURL: c.LLM.BaseURL,
						APIKey: "sk-the-key-of-the-tape"}}
					c.LLM.BaseURL = ""
					if mode == "replay" {
						c.Providers[0].BaseURL, c.Providers[0].APIKey = "http://"+loopback.Nobody+"/v1", ""
					}
				}
			}
			n := max(*tapeTurns/3, 5)
			recorded := tell(t, newEnv(t, script, over("record")), string(api)+"-a", n)
			files, err := filepath.Glob(filepath.Join(folder, "*.json"))
			require.NoError(t, err)
			assert.NotEmpty(t, files)
			for _, file := range files {
				b, err := os.ReadFile(file)
				require.NoError(t, err)
				assert.NotContains(t, string(b), "sk-the-key")
			}
			e := newEnv(t, fakellm.Empty(), over("replay"))
			for i := range *tapeReplays {
				require.Equal(t, recorded, tell(t, e, fmt.Sprintf("%s-b%d", api, i), n))
			}
			assert.Empty(t, e.model.Requests())
			e.work(withEcho()...)
			app, _ := e.failure(e.begin(string(api)+"-new", "Something else.", nil))
			assert.Equal(t, string(turn.CodeLLMRejected), app.Type())
			for _, part := range []string{"Something else.", "in place of", "record:"} {
				assert.True(t, strings.Contains(app.Message(), part), app.Message())
			}
		})
	}
}

// TestATapeFromASessionReplaysItsAnswers makes a tape of a session with calls, and replays it with another system
// prompt to a new session.
func TestATapeFromASessionReplaysItsAnswers(t *testing.T) {
	t.Parallel()
	m := fakellm.Start(t, fakellm.Cases(fakellm.When("first", fakellm.Steps(
		fakellm.Call("local_list_files", `{"path":"."}`).WithText("Looking."), fakellm.Text("One file."))),
		fakellm.When("second", fakellm.Text("Two."))))
	h := newUserFolder(t, asking(m))
	w := h.worker()
	told := func(session string) []string {
		return []string{h.everturn("run", "-s", session, "The first.").exits(0).out.String(),
			h.everturn("run", "-s", session, "The second.").exits(0).out.String()}
	}
	want := told("taped")
	h.everturn("tape", "from", "none", "tape").exits(3)
	h.everturn("tape", "from", "taped", "tape").exits(0)
	h.everturn("tape", "from", "taped", "tape").exits(3)
	w.signal(syscall.SIGTERM)
	w.wait()
	asked := len(m.Requests())
	h.worker("--set", "llm.tape=replay:tape", "--set", "runtime.system_prompt=Another one.")
	assert.Equal(t, want, told("replayed"))
	more := h.everturn("run", "-s", "replayed", "A third.").exits(1)
	assert.Contains(t, more.err.String(), "3 answers")
	assert.Len(t, m.Requests(), asked)
}
