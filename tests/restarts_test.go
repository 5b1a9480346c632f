package tests

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/loopback"
	"github.com/everturn/everturn/tests/script"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// restarts is the amount of work that TestTurnsOutliveAServerThatRestarts does with each transport. An outage begins
// after that many effects, or after the duration every if it is set.
var restarts = struct {
	turns, atOnce, effects int
	every, longest         time.Duration
	take                   int // milliseconds of work on each side of an effect
}{turns: 8, atOnce: 4, effects: 8, longest: 1500 * time.Millisecond, take: 20}

// callsEach is how many calls a turn makes, one after the other.
const callsEach = 4

// restarted is a server that the test kills and starts again.
type restarted interface {
	host() func(*config.Config)
	kill()
	start()
	count(event, text string) int
	effects() int
}

// restartedStdio is a server that the worker starts whenever its command exists.
type restartedStdio struct{ *comingServer }

func (s restartedStdio) host() func(*config.Config) { return s.comingServer.host(config.MCPTool{}) }
func (s restartedStdio) start()                     { s.comeBack() }
func (s restartedStdio) kill() {
	require.NoError(s.t, os.Remove(s.command))
	_ = syscall.Kill(s.server(), syscall.SIGKILL) // the worker may not have started it yet
}

// restartedHTTP is a process beside the worker that always has the same address.
type restartedHTTP struct {
	*ledger
	address string
	cmd     *exec.Cmd
	stdin   io.WriteCloser
}

func newRestartedHTTP(t *testing.T) *restartedHTTP {
	address, err := loopback.Address()
	require.NoError(t, err)
	s := &restartedHTTP{ledger: newLedger(t), address: address}
	t.Cleanup(func() { s.kill() })
	return s
}

func (s *restartedHTTP) host() func(*config.Config) {
	return func(c *config.Config) {
		s.ledger.host(config.MCPTool{})(c)
		server := &c.MCP.Servers[0]
		server.Transport, server.Command, server.Args, server.URL = config.TransportHTTP, "", nil, "http://"+s.address+"/mcp"
	}
}

func (s *restartedHTTP) start() {
	s.cmd = exec.Command(binary(s.t, "./tests/mcpserver"), "-http", s.address, "-until-eof", "-ledger", s.file)
	var err error
	s.stdin, err = s.cmd.StdinPipe() // if the test dies, stdin ends and so does the server
	require.NoError(s.t, err)
	require.NoError(s.t, s.cmd.Start())
}

func (s *restartedHTTP) kill() {
	_ = s.cmd.Process.Kill() // the server may have been killed before
	_ = s.cmd.Wait()
}

// tally counts the outcomes of calls and turns.
type tally struct{ ok, unknown, givenUp, incomplete int }

func TestTurnsOutliveAServerThatRestarts(t *testing.T) {
	t.Parallel()
	for name, newServer := range map[string]func(*testing.T) restarted{
		"stdio": func(t *testing.T) restarted { return restartedStdio{newComingServer(t)} },
		"http":  func(t *testing.T) restarted { return newRestartedHTTP(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.start()
			r := newRig(t, script.Func(func(q script.Request) script.Reply {
				if q.Step == callsEach {
					return script.Text("Done.")
				}
				return script.Call("mcp_ledger_append",
					fmt.Sprintf(`{"text":"%s/%d","take":%d}`, q.Chat.Asked(), q.Step, restarts.take))
			}), s.host())
			r.work()
			over := fails(t, s)
			got := r.throughOutages(s)
			outages := over()
			t.Logf("%d outages, %d turns, %+v", outages, restarts.turns, got)
			assert.Positive(t, outages)
			assert.Zero(t, got.incomplete, "turns that did not make all their calls")
			assert.LessOrEqual(t, got.givenUp*100, restarts.turns*callsEach, "over 1 %% of the calls are given up")
		})
	}
}

// fails makes the server fail repeatedly until the returned function is called, which returns the number of outages.
func fails(t *testing.T, s restarted) (over func() int) {
	done, ended, outages := make(chan struct{}), make(chan struct{}), 0
	go func() {
		defer close(ended)
		seen, tick := 0, time.NewTicker(max(restarts.every, 5*time.Millisecond))
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			if n := s.effects(); restarts.every == 0 && n < seen+restarts.effects {
				continue
			}
			s.kill()
			time.Sleep(rand.N(restarts.longest))
			s.start()
			outages++
			seen = s.effects()
		}
	}()
	return func() int { close(done); <-ended; return outages }
}

// throughOutages runs the turns, and checks that no call had more than one effect and that every call whose outcome is
// ok had one.
func (r *rig) throughOutages(s restarted) (got tally) {
	var all sync.WaitGroup
	var mu sync.Mutex
	next := make(chan int)
	for range restarts.atOnce {
		all.Go(func() {
			for n := range next {
				id := fmt.Sprintf("%s-%d", strings.ReplaceAll(r.t.Name(), "/", "-"), n)
				mu.Lock()
				run := r.begin(id, fmt.Sprint("turn", n), nil)
				mu.Unlock()
				var res workflows.Result
				failed := run.Get(r.t.Context(), &res)
				list, err := r.store.Calls(r.t.Context(), run.GetRunID())
				mu.Lock()
				if err != nil || failed != nil || len(list) != callsEach || res.FinishReason != turn.FinishAnswered {
					got.incomplete++
				}
				for i, c := range list {
					effects := s.count("effect", fmt.Sprintf("turn%d/%d", n, i))
					assert.LessOrEqual(r.t, effects, 1, "%s of %s is doubled", c.Call.ID, id)
					switch c.Outcome {
					case turn.OutcomeOK:
						got.ok++
						assert.Equal(r.t, 1, effects, "%s of %s is ok without its effect", c.Call.ID, id)
					case turn.OutcomeUnknown:
						got.unknown++
					default:
						got.givenUp++
						assert.Zero(r.t, effects, "%s of %s was given up with an effect", c.Call.ID, id)
					}
				}
				mu.Unlock()
			}
		})
	}
	for n := range restarts.turns {
		next <- n
	}
	close(next)
	all.Wait()
	return got
}

// effects returns the number of effects in the ledger.
func (l *ledger) effects() int {
	b, err := os.ReadFile(l.file)
	if err != nil {
		return 0
	}
	return strings.Count(string(b), `"event":"effect"`)
}
