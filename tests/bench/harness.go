package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	openai "github.com/sashabaranov/go-openai"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/adapters"
	"github.com/everturn/everturn/internal/devserver"
	"github.com/everturn/everturn/journal/postgres"
	"github.com/everturn/everturn/journal/postgres/pgtest"
	"github.com/everturn/everturn/tests/bench/proc"
	"github.com/everturn/everturn/tests/fleet"
	"github.com/everturn/everturn/tests/temporaltest"
)

var quiet = log.NewStructuredLogger(slog.New(slog.DiscardHandler))

// harness holds what all scenarios share: a Temporal server, the commands and a client.
type harness struct {
	dir       string           // removed at the end
	self      string           // this program, which also plays the roles
	fleet     *fleet.Fleet     // its server is measured; nil: the development server
	stack     *devserver.Stack // the development server
	address   string           // of the server
	client    client.Client
	serverPID int
	tools     []openai.Tool
	subjects  int    // started so far
	profile   string // folder for profiles of Everturn's workers; empty: none
	progress  io.Writer
	postgres  *pgtest.Server // that of the fleet, or started with the first arm that needs it
}

func newHarness(ctx context.Context, root string, onFleet bool, progress io.Writer) (_ *harness, err error) {
	r := &harness{progress: progress}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if r.dir, err = os.MkdirTemp("", "everturn-bench-"); err != nil {
		return nil, err
	}
	if r.self, err = os.Executable(); err != nil {
		return nil, err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", r.dir+"/", "./worker", "./tests/mcpserver")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the commands: %w\n%s", err, out)
	}
	if err := r.workspace(); err != nil {
		return nil, err
	}
	start := r.server
	if onFleet {
		start = r.startFleet
	}
	if err := start(ctx); err != nil {
		return nil, err
	}
	if r.client, err = client.DialContext(ctx, client.Options{HostPort: r.address, Logger: quiet}); err != nil {
		return nil, err
	}
	return r, r.catalogue(ctx)
}

// workspace creates the folder that the file tool reads.
func (r *harness) workspace() error {
	if err := os.Mkdir(r.folder("workspace"), 0o700); err != nil {
		return err
	}
	for _, size := range []int{resultBytes, shortResultBytes} {
		for i := range pages {
			line := fmt.Sprintf("page %02d of the book. ", i)
			text := strings.Repeat(line, size/len(line)+1)[:size]
			if err := os.WriteFile(filepath.Join(r.folder("workspace"), page(size, i)), []byte(text), 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// page returns the name of file i of so many bytes.
func page(size, i int) string { return fmt.Sprintf("page-%d-%d.txt", size, i) }

func (r *harness) folder(name string) string { return filepath.Join(r.dir, name) }

// startFleet starts the services of make fleet without workers: Temporal on Postgres, which waits for the disk.
func (r *harness) startFleet(ctx context.Context) (err error) {
	if err := os.Chmod(r.dir, 0o711); err != nil { //nolint:gosec // root's Postgres runs as another user
		return err
	}
	if r.fleet, err = fleet.Start(ctx, fleet.Options{Dir: r.folder("fleet"), Worker: r.folder("worker"),
		Progress: r.progress}); err != nil {
		return err
	}
	r.address, r.postgres, r.serverPID = r.fleet.Address(), r.fleet.Postgres(), r.fleet.TemporalPid()
	return nil
}

// server starts a development server on its own ports.
func (r *harness) server(ctx context.Context) error {
	var err error
	if r.stack, err = temporaltest.Start(ctx, r.folder("stack"), r.progress); err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(r.stack.Address)
	if err != nil {
		return err
	}
	r.address = r.stack.Address
	r.serverPID, err = proc.Find(func(argv []string) bool {
		line := strings.Join(argv[1:], " ")
		return strings.HasPrefix(line, "server start-dev") && strings.Contains(line, "--port "+port)
	})
	return err
}

// catalogue reads the tools that the configuration offers, so that the cookbook's model gets the same ones.
func (r *harness) catalogue(ctx context.Context) error {
	path, err := r.agent(ctx, "catalogue", ourMCP, "http://127.0.0.1:1/v1")
	if err != nil {
		return err
	}
	loaded, err := config.Load(config.LoadOptions{Path: path})
	if err != nil {
		return err
	}
	catalogues, _, err := adapters.AskServers(ctx, loaded.Config, os.Environ())
	if err != nil {
		return err
	}
	for _, c := range catalogues {
		if c.Problem != "" {
			return fmt.Errorf("asking %s for its tools: %s", c.Server, c.Problem)
		}
		for _, d := range c.Tools {
			r.tools = append(r.tools, openai.Tool{Type: openai.ToolTypeFunction,
				Function: &openai.FunctionDefinition{Name: d.Wire, Description: d.Description, Parameters: d.Schema}})
		}
	}
	return nil
}

// journalConfig returns the keys of the arm's journal.
func (r *harness) journalConfig(ctx context.Context, name string, a arm) (string, error) {
	if !a.postgres {
		return fmt.Sprintf("path = %q\nsynchronous = \"%s\"\n", r.journal(name), a.synchronous()), nil
	}
	if r.postgres == nil {
		var err error
		if r.postgres, err = pgtest.New(ctx, "fsync=on"); err != nil {
			return "", err
		}
	}
	if err := r.postgres.Exec(ctx, r.postgres.URL(), fmt.Sprintf("CREATE SCHEMA %q", name)); err != nil {
		return "", err
	}
	url := r.postgresJournal(name)
	if _, err := postgres.Migrate(ctx, url); err != nil {
		return "", err
	}
	return fmt.Sprintf("url = %q\n", url), nil
}

func (r *harness) postgresJournal(name string) string {
	return r.postgres.URL() + "&search_path=" + name
}

// agent writes an agent.toml and returns its path. All other settings keep their defaults.
func (r *harness) agent(ctx context.Context, name string, a arm, provider string) (string, error) {
	j, err := r.journalConfig(ctx, name, a)
	if err != nil {
		return "", err
	}
	server := ""
	for _, id := range []string{"bench", "quick"} {
		quick := id == "quick"
		server += fmt.Sprintf(
			"[[mcp.servers]]\nid = %q\ncommand = %q\nrequired = true\nallow = [\"big\"]\n"+
				"[mcp.servers.tools.big]\nrisk = \"low\"\nrepeatable = %t\nlocal_activity = %t\n", id, r.folder("mcpserver"), quick,
			quick)
	}
	if a.compaction {
		server += fmt.Sprintf("[[models]]\nname = %q\ncontext_tokens = 128_000\n", a)
	}
	text := fmt.Sprintf("[policy]\ntaint = \"off\"\n[runtime]\nworkspace = %q\n[llm]\nprovider = "+
		"\"openai\"\nbase_url = %q\nmodel = %q\n"+
		"[journal]\n%s[temporal]\naddress = %q\ntask_queue = %q\n%s",
		r.folder("workspace"), provider, a.String(), j, r.address, name, server)
	path := r.folder(name + ".toml")
	return path, os.WriteFile(path, []byte(text), 0o600)
}

func (r *harness) journal(name string) string { return r.folder(name + ".db") }

func (r *harness) close() error {
	var errs []error
	if r.client != nil {
		r.client.Close()
	}
	if r.stack != nil {
		errs = append(errs, r.stack.Close())
	}
	switch {
	case r.fleet != nil:
		errs = append(errs, r.fleet.Close())
	case r.postgres != nil:
		errs = append(errs, r.postgres.Close())
	}
	if r.dir != "" {
		errs = append(errs, os.RemoveAll(r.dir))
	}
	return errors.Join(errs...)
}

// provider is the scripted model in its own process.
type provider struct {
	*proc.Process
	url, counts string
}

func (r *harness) provider(ctx context.Context) (*provider, error) {
	p, err := proc.Start(proc.Command{Name: "provider", Argv: []string{r.self, "provider"}, Dir: r.dir, Env: os.Environ()})
	if err != nil {
		return nil, err
	}
	line, err := p.FirstLine(ctx)
	if err != nil {
		return nil, err
	}
	url, counts, _ := strings.Cut(line, " ")
	return &provider{p, url, counts}, nil
}

// tallies returns what the provider has received, by arm.
func (p *provider) tallies(ctx context.Context) (map[string]tally, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.counts, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking the provider what it was sent: %w", err)
	}
	defer res.Body.Close()
	out := map[string]tally{}
	return out, json.NewDecoder(res.Body).Decode(&out)
}

func listen() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }
