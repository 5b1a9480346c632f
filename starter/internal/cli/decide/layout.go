package decide

import (
	"context"
	"fmt"
	"strings"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/form"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// layout controls how requests are printed.
type layout struct {
	// columns is the width of the terminal; 0 means that lines are not wrapped.
	columns int
	// omitFields omits the list of a form's fields, because the command asks for them one by one.
	omitFields bool
	// quarantined maps the IDs of quarantined tools to their servers.
	quarantined map[string]string
	// folder returns the folder in which the file tools act for a session; nil if it is not on this machine.
	folder func(session string) string
	// callers maps the session of a subagent to a line that names its callers: see callersOf.
	callers map[string]string
}

// LayoutOf returns the layout for one of the program's streams. Diffs show files of the folders that cfg names.
func LayoutOf(ctx context.Context, a *app.App, cfg config.Config, w any) layout {
	columns, _ := app.SizeOf(w)
	return layout{columns: columns, folder: a.Folders(ctx, cfg)}
}

// describe returns the text of a request, exactly and completely, with warnings about its tool.
func (l layout) describe(r client.Request) string {
	var lines []string
	folder := ""
	if l.folder != nil {
		folder = l.folder(r.Session)
	}
	for _, p := range ui.Describe(r.Session, r, folder) {
		if p.Fields && l.omitFields {
			continue
		}
		if p.Quoted {
			p.Text = l.barred(p.Text)
		}
		lines = append(lines, p.Text)
	}
	if callers := l.callers[r.Session]; callers != "" {
		lines = append(lines, callers)
	}
	if server := l.quarantined[r.Tool]; server != "" {
		lines = append(lines, quarantineWarning(r, server))
	}
	if err := ui.Exact(r); err != nil {
		lines = append(lines, "warning: "+err.Error())
	}
	return strings.Join(lines, "\n")
}

const bar = "  │ "

// barred returns a text exactly and completely, with a bar before each line. The bar distinguishes the text of a model
// or a server from the command's own.
func (l layout) barred(s string) string {
	columns := 0
	if l.columns > 0 {
		columns = max(l.columns-len("  | "), 1) // bar has as many columns, and more bytes
	}
	return bar + strings.Join(termsafe.Rows(termsafe.Visible(s), columns), "\n"+bar)
}

// WithCommands describes requests, each with the commands that decide it.
func (l layout) WithCommands(requests []client.Request) string {
	var lines []string
	for _, r := range requests {
		lines = append(lines, l.describe(r), commandsFor(r))
	}
	return strings.Join(lines, "\n")
}

// commandsFor returns the commands that decide a request.
func commandsFor(r client.Request) string {
	names := app.Quoted(r.Session) + " " + r.ID
	switch r.Kind {
	case turn.RequestQuestion:
		return fmt.Sprintf("answer it with\n  everturn answer %s \"...\"", names)
	case turn.RequestElicitation:
		return fmt.Sprintf("answer or decline it with\n  everturn answer %s %s\n  everturn answer %s --decline", names,
			exampleAnswer(r), names)
	}
	if r.Kind == turn.RequestResult {
		return fmt.Sprintf("send its result with\n  everturn result %s %s \"...\"", app.Quoted(r.Session), r.Call)
	}
	deny := fmt.Sprintf("\n  everturn deny %s --reason \"...\"", names)
	if ui.Exact(r) != nil {
		return "deny it with" + deny
	}
	if r.Tool == plan.Tool {
		deny = fmt.Sprintf("\n  everturn approve %s --edit", names) + deny
	}
	return fmt.Sprintf("decide it with\n  everturn approve %s --hash %s", names, ui.ShortHash(r.ArgumentsHash)) + deny
}

// exampleAnswer returns the flags that answer an elicitation, with an ellipsis for each value.
func exampleAnswer(r client.Request) string {
	e := form.ElicitationOf(r)
	if e.URL != "" {
		return "--accept"
	}
	f, err := form.Parse(e.Schema)
	if err != nil { // a form that cannot be read cannot be accepted
		return "--cancel"
	}
	return f.Example(app.Quoted)
}

// callersOf returns, by the session of each subagent with a request, a line that names the agents from the user's
// session down to the subagent, and the user's session.
func callersOf(ctx context.Context, j client.Journal, requests []client.Request) map[string]string {
	paths := map[string]string{}
	for _, r := range requests {
		session, path := r.Session, ""
		for id := r.Turn; ; {
			t, err := j.Turn(ctx, id)
			if err != nil {
				break // show the requests even without the whole path
			}
			if path != "" {
				path = " > " + path
			}
			session, path = t.Session, app.Line(t.Agent, 60)+path
			s, err := j.Session(ctx, session)
			if err != nil || s.Caller.IsZero() {
				break
			}
			id = s.Caller.Turn
		}
		if session != r.Session {
			paths[r.Session] = fmt.Sprintf("agents: %s, for session %s", path, app.Line(session, 200))
		}
	}
	return paths
}

// quarantinedTools returns the servers of the quarantined tools, by the tool's ID.
func quarantinedTools(ctx context.Context, j client.Journal) (map[string]string, error) {
	catalogues, err := j.Catalogues(ctx)
	servers := map[string]string{}
	for _, c := range catalogues {
		for _, q := range c.Quarantined {
			servers[q.Now.ID] = c.Server
		}
	}
	return servers, err
}

// quarantineWarning returns a warning that an approval has no effect, because the call's tool is quarantined.
func quarantineWarning(r client.Request, server string) string {
	return fmt.Sprintf("warning: %s has changed and is quarantined: the call ends in tool_drift even if you allow it, "+
		"unless the tool changes back; "+
		"see `everturn tools diff %s`", termsafe.Visible(r.Tool), app.Quoted(server))
}
