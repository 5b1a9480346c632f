package page

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/workflows/turn"
)

// request is a request as its card shows it.
type request struct {
	client.Request
	mark
	Element   string // the ID of the card
	Number    int    // from 1, of Of
	Of        int
	Heading   string
	About     string
	Arguments string // all of them
	Command   string // the command line of the arguments; "" if they have none
	Diff      []diffLine
	Exact     bool // Arguments are those that would run
	Grants    []grant
	Beside    []turn.ToolCall
	Form      form
	Address   string // that the server asks the user to open
	Host      string // of Address
	Expires   string
	Title     string // of its session
}

// grant is a decision that allows later calls, too.
type grant struct {
	Scope turn.GrantScope
	Label string
	Key   string
}

// grants are the decisions of the chat, under its keys.
var grants = []grant{
	{turn.GrantCall, "Always these arguments", "a"},
	{turn.GrantHost, "Always this host", "h"},
	{turn.GrantCommand, "Always these commands", "c"},
	{turn.GrantTool, "Always this tool", "t"},
}

// riskMarks are the colours of risks.
var riskMarks = map[turn.Risk]mark{turn.RiskLow: {S: "off"}, turn.RiskMedium: {S: "wait"}, turn.RiskHigh: {S: "fail"}}

// request describes an open request.
func (v *visit) request(r client.Request, number, of int) request {
	p := request{Request: r, mark: riskMarks[r.Risk], Element: "q-" + r.Turn + "-" + r.ID, Number: number, Of: of}
	if !r.ExpiresAt.IsZero() {
		p.Expires = "expires in " + strings.Replace(ago(r.ExpiresAt.Sub(v.now)), "now", "less than a minute", 1)
	}
	switch r.Kind {
	case turn.RequestApproval:
		p.Heading = "Allow " + line(r.Tool) + "?"
		v.approval(&p)
	case turn.RequestElicitation:
		p.elicitation()
	default:
		p.Heading, p.About = "The model asks", line(r.Question)
	}
	return p
}

// approval adds what an approval shows.
func (v *visit) approval(p *request) {
	r := p.Request
	p.About = line(r.Arguments)
	p.Arguments, p.Diff = visible(r.Arguments), editDiff(r.Arguments)
	p.Exact = turn.HashText(r.Arguments) == r.ArgumentsHash
	var a struct{ Command string }
	if json.Unmarshal([]byte(r.Arguments), &a) == nil {
		p.Command = visible(a.Command)
	}
	for _, g := range grants {
		if p.Exact && r.Grants(g.Scope) {
			p.Grants = append(p.Grants, g)
		}
	}
	if r.Beside != nil {
		for _, c := range r.Beside.Calls {
			p.Beside = append(p.Beside, turn.ToolCall{Tool: line(c.Tool), Arguments: visible(c.Arguments)})
		}
	}
}

// elicitation adds what an elicitation shows.
func (p *request) elicitation() {
	server := line(p.Tool)
	if i := strings.LastIndexByte(server, '/'); i > 0 {
		server = server[:i]
	}
	p.Heading = server + " asks"
	if p.Elicitation == nil {
		return
	}
	p.About = line(p.Elicitation.Message)
	if p.Elicitation.URL == "" {
		p.Form = parseForm(p.Elicitation.Schema)
		return
	}
	p.Address = visible(p.Elicitation.URL)
	if u, err := url.Parse(p.Elicitation.URL); err == nil && (u.Scheme == "https" || u.Scheme == "http") {
		p.Host = visible(u.Hostname())
	}
}

// inboxPage are the open requests of all sessions.
type inboxPage struct {
	frame
	Requests []request
}

func (v *visit) inbox() error {
	ctx := v.r.Context()
	f, err := v.frame(ctx, "Inbox", "inbox")
	if err != nil {
		return err
	}
	open, err := v.Pending(ctx, client.PendingInput{})
	if err != nil {
		return err
	}
	p := inboxPage{frame: f}
	titles := map[string]string{}
	for i, r := range open {
		if _, known := titles[r.Session]; !known {
			s, err := v.Journal().Session(ctx, r.Session)
			if err != nil {
				return err
			}
			titles[r.Session] = title(s)
		}
		q := v.request(r, i+1, len(open))
		q.Title = titles[r.Session]
		p.Requests = append(p.Requests, q)
	}
	return v.render(http.StatusOK, "inbox.html", p)
}
