package ui

import (
	"fmt"
	"strings"
	"time"

	"github.com/everturn/everturn/starter/internal/ui/form"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// Part is a piece of a description.
type Part struct {
	Text   string
	Quoted bool // a model or a server wrote the text: show it behind a bar, so that it does not look like this program's
	Fields bool // the part is about the fields of a form
}

// Describe returns what a user must see to decide about a request: a line that names it, the calls that run together
// with it, the reason (up to 300 characters), and the whole question, form, or arguments of the call. The steps of a
// plan, and the diff of a call that edits a file, precede the arguments. The diff has the lines around the change if the
// file is in folder, where the session's file tools act; "" means another machine. A quoted part may be unsafe for a
// terminal.
func Describe(session string, r turn.Request, folder string) []Part {
	var parts []Part
	add := func(text string) { parts = append(parts, Part{Text: text}) }
	head := requestTitle(termsafe.Visible(session), r)
	if !r.ExpiresAt.IsZero() {
		head += " · expires " + r.ExpiresAt.Local().Format(time.DateTime)
	}
	add(head)
	if title, calls := Beside(r); title != "" {
		add(title)
		parts = append(parts, Part{Text: calls, Quoted: true})
	}
	if r.Why != "" {
		add("reason: " + termsafe.Line(r.Why, 300))
	}
	switch r.Kind {
	case turn.RequestQuestion:
		return append(parts, Part{Text: r.Question, Quoted: true})
	case turn.RequestElicitation:
		return append(parts, Elicitation(r)...)
	}
	// an approval or a result
	if steps := Steps(r); steps != "" {
		add("its steps:")
		parts = append(parts, Part{Text: steps, Quoted: true})
	}
	if diff := DiffIn(folder, r.Tool, r.Arguments); diff != "" {
		add("it changes a text:")
		parts = append(parts, Part{Text: diff, Quoted: true})
	}
	if command, others, ok := Command(r.Tool, r.Arguments); ok {
		add(fmt.Sprintf("command (hash %s):", ShortHash(r.ArgumentsHash)))
		parts = append(parts, Part{Text: command, Quoted: true})
		if others != "" {
			add("other arguments:")
			parts = append(parts, Part{Text: others, Quoted: true})
		}
	} else {
		add(fmt.Sprintf("arguments (hash %s):", ShortHash(r.ArgumentsHash)))
		parts = append(parts, Part{Text: Arguments(r.Arguments), Quoted: true})
	}
	if covers := Covers(r); covers != "" {
		add(covers)
	}
	return parts
}

// Beside describes the calls that run together with the call of an approval: a title with their number, and a line for
// each call, or the lines of its command. The calls may be unsafe for a terminal. Both are empty if there are none.
func Beside(r turn.Request) (title, calls string) {
	b := r.Beside
	if b == nil {
		return "", ""
	}
	title = "runs together with " + Count(b.Count, "unapproved call")
	if more := b.Count - len(b.Calls); more > 0 {
		title += fmt.Sprintf("; %d of them not shown here", more)
	}
	var lines []string
	for _, c := range b.Calls {
		text, others, ok := Command(c.Tool, c.Arguments)
		if !ok {
			others = strings.ReplaceAll(Arguments(c.Arguments), "\n", `\n`)
		}
		lines = append(lines, strings.ReplaceAll(c.Tool, "\n", `\n`)+" "+strings.TrimSpace(text+" "+others))
	}
	return title + ":", strings.Join(lines, "\n")
}

// requestTitle names a request, its session and its source.
func requestTitle(session string, r turn.Request) string {
	id := termsafe.Visible(r.ID)
	switch r.Kind {
	case turn.RequestQuestion:
		return fmt.Sprintf("question %s of session %s", id, session)
	case turn.RequestElicitation:
		return fmt.Sprintf("elicitation %s of session %s: %s", id, session, Asks(r))
	case turn.RequestResult:
		return fmt.Sprintf("call %s of session %s waits for a client to run it: %s", termsafe.Visible(r.Call), session,
			termsafe.Visible(r.Tool))
	}
	return fmt.Sprintf("approval %s of session %s: call %s · risk %s", id, session, termsafe.Visible(r.Tool),
		termsafe.Visible(string(r.Risk)))
}

// Asks returns a phrase that names the server of an elicitation and the call that it interrupts: "the server … asks
// during call … of …".
func Asks(r turn.Request) string {
	out := form.Asker(r) + " asks"
	if r.Call != "" {
		out += " during call " + termsafe.Line(r.Call, 40)
	}
	if r.Tool != "" {
		out += " of " + termsafe.Line(termsafe.Visible(r.Tool), 120)
	}
	return out
}

// Elicitation describes an elicitation: the server's message, the address or the fields of the form, and who gets the
// response.
func Elicitation(r turn.Request) []Part {
	e := form.ElicitationOf(r)
	parts := []Part{{Text: e.Message, Quoted: true}}
	if e.URL != "" {
		return append(parts, address(r, e.URL)...)
	}
	f, err := form.Parse(e.Schema)
	if err != nil {
		return append(parts, Part{Text: "its form cannot be shown, so it can only be declined: " + termsafe.Line(err.Error(),
			300)})
	}
	if len(f.Fields) > 0 {
		parts = append(parts, Part{Text: "it asks for:", Fields: true},
			Part{Text: strings.Join(f.Lines(), "\n"), Quoted: true, Fields: true})
	}
	return append(parts, Part{Text: form.Recipients})
}

// address describes raw, the address that a server asks the user to open, with warnings if it may be deceptive. This
// program never opens it.
func address(r turn.Request, raw string) []Part {
	a := form.AddressOf(raw)
	host := ""
	if a.Host != "" {
		host = " on " + a.Host
	}
	parts := []Part{{Text: "it asks you to open this address" + host + ":"}, {Text: a.URL, Quoted: true}}
	for _, warning := range a.Warnings {
		parts = append(parts, Part{Text: "warning: " + warning})
	}
	return append(parts, Part{Text: "open it only if you trust " + form.Asker(r) + " and expect this request"})
}

// Requested describes a new request in one line.
func Requested(r turn.Request) string {
	id := Preview(r.ID)
	switch r.Kind {
	case turn.RequestApproval:
		return fmt.Sprintf("? %s %s waits for approval", id, Preview(r.Tool))
	case turn.RequestElicitation:
		return fmt.Sprintf("? %s %s asks: %s", id, form.Asker(r), Excerpt(form.ElicitationOf(r).Message, previewRunes, 0))
	case turn.RequestResult:
		return fmt.Sprintf("? %s %s waits for a client to run it", id, Preview(r.Tool))
	}
	return fmt.Sprintf("? %s %s", id, Excerpt(r.Question, previewRunes, 0))
}

// Subject describes in a few words what a request is about.
func Subject(r turn.Request) string {
	switch r.Kind {
	case turn.RequestApproval, turn.RequestResult:
		return CallText(CallOf(r), "", callRunes)
	case turn.RequestElicitation:
		return form.Asker(r) + ": " + Preview(form.ElicitationOf(r).Message)
	}
	return Preview(r.Question)
}

// CallOf returns the call of an approval or a result, as far as the request has it.
func CallOf(r turn.Request) turn.CallEvent {
	return turn.CallEvent{Tool: r.Tool, Arguments: r.Arguments, ArgumentsBytes: r.ArgumentsBytes}
}

// Decided describes the decision on a request in one line. It omits the content of a response to an elicitation, which
// is only for the server.
func Decided(p turn.Request) string {
	mark := "?"
	if p.Kind == turn.RequestApproval {
		mark = "!"
	}
	return fmt.Sprintf("%s %s · %s", mark, Subject(p), Decision(*p.Decision))
}

// Decision describes a decision: its status, its author, which later calls it allows, and its reason.
func Decision(d turn.Decision) string {
	out := Preview(string(d.Status))
	switch {
	case d.Status == turn.StatusAllowed && d.Response != nil: // the user approved a plan and changed it
		out += ", changed"
	case d.Response != nil:
		out = form.Acted(*d.Response)
	}
	if d.By != "" {
		out += " by " + Preview(d.By)
	}
	if d.Status == turn.StatusExpired && d.Allowed {
		out += ", and allowed by the configuration"
	}
	switch d.Grant {
	case turn.GrantTool:
		out += ", and every later call of this tool"
	case turn.GrantHost:
		out += ", and every later call to this host"
	case turn.GrantCommand:
		out += ", and every later call of these commands"
	case turn.GrantCall:
		out += ", and every later call with these arguments"
	}
	if d.Reason != "" {
		out += ": " + Excerpt(d.Reason, 200, 0)
	}
	return out
}

// ShortHash returns the first HashDigits digits of a hash, for a user to copy.
func ShortHash(hash string) string { return termsafe.Visible(hash[:min(len(hash), HashDigits)]) }

// HashDigits is how many hexadecimal digits of a hash are shown, and the fewest with which a user may name one: with
// 12, an attacker who writes two calls or two versions of a tool can give both the same beginning within minutes.
const HashDigits = 32
