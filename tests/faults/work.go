package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// programs are the paths of the built commands.
type programs struct {
	worker, weak, mcpserver, hostile, temporal string
	// mutant is the worker that can break promises, and mutation the promise that it breaks. Empty: no mutant is played.
	mutant, mutation string
	// postgres is the server of the journals; nil for journals in SQLite.
	postgres *postgresServer
}

// canary returns a secret of this run: n 1 is the provider's key, 2 the token of one MCP server, 3 a variable of the
// worker's environment.
func (r *harness) canary(n int) string {
	return fmt.Sprintf("canary-%s", hex.EncodeToString(fmt.Appendf(nil, "%d-%d", n, r.seed)))
}

// configure writes the agent.toml that all workers of the harness use.
func (r *harness) configure() error {
	base, err := r.provider.in(r.model.URL())
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "[runtime]\npreset = \"brief\"\nworkspace = %q\nmax_steps = 20\n"+
		"max_tool_calls = 40\nmax_consecutive_errors = 10\ntool_timeout = %q\n",
		inDir(r.dir, "workspace"), r.settings.toolTimeout)
	b.WriteString(r.settings.runtime)
	fmt.Fprintf(&b, "[llm]\nprovider = \"openai\"\nbase_url = %q\nmodel = \"scripted\"\napi_key = %q\n",
		base, r.canary(1))
	b.WriteString("idle_timeout = \"3s\"\n")
	b.WriteString(r.settings.llm + "[journal]\n" + r.database.section())
	fmt.Fprintf(&b, "[temporal]\naddress = %q\ntask_queue = %q\n[worker]\ndrain_timeout = \"3s\"\n%s",
		r.temporal.address(), r.queue, r.settings.worker)
	fmt.Fprintf(&b, "[policy]\ntaint = %q\n[[policy.rules]]\ntool = \"mcp/*\"\npermit = \"ask\"\nwhy = \"a person "+
		"decides\"\n[policy.rules.arguments]\ntext = %q\n", r.settings.taint, askMark+"*")
	for _, s := range r.settings.servers() {
		r.mcpSection(&b, s)
	}
	b.WriteString(r.settings.extra)
	return os.WriteFile(inDir(r.dir, "agent.toml"), []byte(b.String()), 0o600)
}

// mcpSection writes the section of an MCP server: over HTTP or over stdio. Of the stdio servers only "once" gets a
// token.
func (r *harness) mcpSection(b *strings.Builder, s toolServer) {
	if s.http {
		fmt.Fprintf(b, "[[mcp.servers]]\nid = %q\nurl = %q\n", s.id, r.settings.remote)
	} else {
		older := s.id == "once" && r.settings.older != ""
		fmt.Fprintf(b,
			"[[mcp.servers]]\nid = %q\ncommand = %q\nargs = [\"-times\", \"-ledger\", %q, \"-release\", %q, \"-pidfile\", %q, \"-mode-file\", %q, \"-face\", %q, \"-old=%t\"]\ntimeouts.connect = %q\n%s",
			s.id, r.programs.mcpserver, r.toolLedger(), inDir(r.dir, "release"), r.pidfile(s.id), r.modeFile(s.id),
			r.faceFile(s.id), older, r.settings.connect, s.own)
		if older {
			fmt.Fprintf(b, "timeouts.elicitation = %q\n", r.settings.older)
		}
	}
	if r.settings.trusted {
		b.WriteString("trust = true\n")
	}
	for _, tool := range s.tools {
		fmt.Fprintf(b, "[mcp.servers.tools.%s]\nrisk = \"low\"\n%s", tool, s.more)
		if s.id == "once" && tool == "append" {
			b.WriteString(r.settings.append)
		}
	}
	if s.id == "once" && !s.http {
		fmt.Fprintf(b, "[mcp.servers.env]\nTOKEN = %q\n", r.canary(2))
	}
}

func (r *harness) toolLedger() string { return inDir(r.dir, "ledgers", "tool.jsonl") }

// modeFile is the file with the way in which an MCP server misbehaves when it starts the next time; without the file,
// the server behaves.
func (r *harness) modeFile(server string) string { return inDir(r.dir, "mode-"+server) }

// faceFile is the file with the face of the tool append of an MCP server; without the file, the tool has its first
// face.
func (r *harness) faceFile(server string) string { return inDir(r.dir, "face-"+server) }

func (r *harness) pidfile(server string) string { return inDir(r.dir, "pid-"+server) }

// ready bounds how long a worker may take until it polls.
const ready = 60 * time.Second

// work starts the real worker, or with flags the one that fails at a point, and waits until it polls. If a mutant is
// played, it starts the mutant.
func (r *harness) work(ctx context.Context, weak ...string) (*process, error) {
	switch {
	case r.programs.mutation != "":
		if len(weak) == 0 {
			weak = []string{"-kill", ""}
		}
		return r.workAs(ctx, r.programs.mutant, append(weak, "-mutant", r.programs.mutation)...)
	case len(weak) > 0:
		return r.workAs(ctx, r.programs.weak, weak...)
	}
	return r.workAs(ctx, r.programs.worker)
}

// workAs starts a worker's program. It tells every program except the real one where to record what it does.
func (r *harness) workAs(ctx context.Context, program string, flags ...string) (*process, error) {
	args := []string{"-config", inDir(r.dir, "agent.toml")}
	if program != r.programs.worker {
		args = append(args, "-armed", inDir(r.dir, "armed"), "-resume", inDir(r.dir, "resume"), "-points",
			inDir(r.dir, "points.jsonl"), "-report", r.processLedger())
	}
	log := inDir(r.dir, "ledgers", "sinks", fmt.Sprintf("worker-%d.log", len(r.workers)+1))
	env := append(os.Environ(), "EVERTURN_FAULTS_SECRET="+r.canary(3))
	if r.settings.path != "" {
		env = append(env, "PATH="+r.settings.path+":"+os.Getenv("PATH"))
	}
	p, err := spawn(log, program, env, append(args, flags...)...)
	if err != nil {
		return nil, err
	}
	r.workers = append(r.workers, p)
	ctx, cancel := context.WithTimeout(ctx, ready)
	defer cancel()
	err = await(ctx, "a worker that polls", func() bool { return p.gone() || p.logged("worker polls") })
	if err != nil || !p.logged("worker polls") {
		return nil, fmt.Errorf("the worker did not start: %w: %s", err, tail(p.log))
	}
	return p, nil
}

func (r *harness) processLedger() string { return inDir(r.dir, "ledgers", "processes.jsonl") }

// heal starts a worker without a fault in place of one that has ended. Half of them report what they leave behind.
func (r *harness) heal(ctx context.Context) error {
	var weak []string
	if r.rng.IntN(2) == 0 {
		weak = []string{"-kill", ""}
	}
	_, err := r.work(ctx, weak...)
	return err
}

// first is the worker that the fault hits.
func (r *harness) first() *process { return r.workers[0] }

func (r *harness) thaw() { r.first().signal(syscall.SIGCONT) }
