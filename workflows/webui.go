package workflows

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/workflows/turn"
)

// The search attributes of a turn. The server fails workflow tasks that use an unknown one, so a worker adds them
// before it polls.
var (
	AttrSession      = temporal.NewSearchAttributeKeyKeyword("EverturnSession")
	AttrAgent        = temporal.NewSearchAttributeKeyKeyword("EverturnAgent")
	AttrModel        = temporal.NewSearchAttributeKeyKeyword("EverturnModel")
	AttrState        = temporal.NewSearchAttributeKeyKeyword("EverturnState")
	AttrFinishReason = temporal.NewSearchAttributeKeyKeyword("EverturnFinishReason")
	AttrTools        = temporal.NewSearchAttributeKeyKeywordList("EverturnTools")
	AttrTokens       = temporal.NewSearchAttributeKeyInt64("EverturnTokens")
	AttrCostUSD      = temporal.NewSearchAttributeKeyFloat64("EverturnCostUSD")
)

// SearchAttributes returns all search attributes of a turn.
func SearchAttributes() []temporal.SearchAttributeKey {
	return []temporal.SearchAttributeKey{AttrSession, AttrAgent, AttrModel, AttrState, AttrFinishReason, AttrTools,
		AttrTokens, AttrCostUSD}
}

// maxToolsShown bounds the tools in the search attributes and details.
const maxToolsShown = 16

// maxToolsBytes bounds the tools' names together, in bytes. The server fails a workflow task with an attribute over 2
// KiB.
const maxToolsBytes = 1500

// upsertResult records the turn's end in the search attributes, as one history event. The client sets the attributes
// that are known at the start of the turn.
func (r *run) upsertResult(ctx workflow.Context, e turn.Result) error {
	p := r.progress
	updates := []temporal.SearchAttributeUpdate{
		AttrSession.ValueSet(r.session), AttrState.ValueSet(string(e.State)),
		AttrFinishReason.ValueSet(string(e.Reason)), AttrTokens.ValueSet(p.Counters.Usage.Total()),
	}
	if p.Config.Agent != "" { // Begin has succeeded
		updates = append(updates, AttrAgent.ValueSet(p.Config.Agent), AttrModel.ValueSet(p.Config.Model))
	}
	if cost := p.Counters.Usage.Cost; cost > 0 { // the attribute is missing if the cost is unknown or 0
		updates = append(updates, AttrCostUSD.ValueSet(cost.Dollars()))
	}
	if len(r.progress.Tools) > 0 {
		updates = append(updates, AttrTools.ValueSet(r.progress.Tools))
	}
	return workflow.UpsertTypedSearchAttributes(ctx, updates...)
}

// upsertCost records the turn's cost and tokens again after Finish has added those of failed and stopped attempts. It
// does nothing if the cost is 0 or unknown.
func (r *run) upsertCost(ctx workflow.Context) error {
	u := r.progress.Counters.Usage
	if u.Cost == 0 {
		return nil
	}
	return workflow.UpsertTypedSearchAttributes(ctx, AttrCostUSD.ValueSet(u.Cost.Dollars()),
		AttrTokens.ValueSet(u.Total()))
}

// upsertState records the state of a turn that has not ended.
func (r *run) upsertState(ctx workflow.Context, s turn.State) error {
	return workflow.UpsertTypedSearchAttributes(ctx, AttrState.ValueSet(string(s)))
}

// show updates the run's current details, which an operator sees in the Web UI, before a phase that takes time.
func (r *run) show(ctx workflow.Context) {
	workflow.SetCurrentDetails(ctx, r.details(string(r.phase)))
}

// showEnding updates the run's current details with the turn's end.
func (r *run) showEnding(ctx workflow.Context, e turn.Result) {
	workflow.SetCurrentDetails(ctx, r.details(string(e.State)+" ("+string(e.Reason)+")"))
}

// details returns the Markdown of the run's current details: the open requests, and a table with state in its first
// row.
func (r *run) details(state string) string {
	c, cfg := r.progress.Counters, r.progress.Config
	var b strings.Builder
	if waits := r.requests.details(); waits != "" { // first, because the Web UI cuts the end
		state = string(turn.StateWaiting)
		b.WriteString(waits + "\n")
	}
	b.WriteString("| | |\n|---|---|\n")
	for _, row := range [][2]string{
		{"state", state}, {"turn", r.turnID}, {"model", cfg.Model},
		{"steps", fmt.Sprintf("%d of %d", c.Taken().Steps, cfg.Limits.MaxSteps)},
		{"tool calls", fmt.Sprintf("%d of %d", c.Taken().ToolCalls, cfg.Limits.MaxToolCalls)},
		{"tools", strings.Join(r.progress.Tools, ", ")},
		{"tokens", c.Usage.Describe()}, {"cost", c.Usage.DescribeCost()},
		{"said", turn.Truncate(r.progress.LastText, 400)},
	} {
		if row[1] != "" {
			fmt.Fprintf(&b, "| %s | %s |\n", row[0], escapeCell(row[1]))
		}
	}
	return b.String()
}

// maxRequestsShown bounds the open requests in the details: the server accepts 20,000 bytes, and 3 KiB read well.
const maxRequestsShown = 3

// details describes the open requests for an operator, in Markdown. It returns "" if there are none.
func (s *requestSet) details() string {
	var b strings.Builder
	open := s.open()
	for _, r := range open[:min(len(open), maxRequestsShown)] {
		if r.Kind == turn.RequestApproval {
			fmt.Fprintf(&b, "\nwaits for **approval** of call %s, %s:\n\n%s", r.ID, escapeCell(turn.Truncate(r.Tool, 120)),
				codeBlock("json", r.Arguments))
		} else {
			fmt.Fprintf(&b, "\nwaits for an **answer** to %s:\n\n%s", r.ID, codeBlock("", r.Question))
		}
	}
	if more := len(open) - maxRequestsShown; more > 0 {
		fmt.Fprintf(&b, "\nand for %d more\n", more)
	}
	return b.String()
}

// codeBlock returns the first 400 bytes of a text as a Markdown code block. Its fence is longer than any in the text,
// so the text cannot end the block. language may be "".
func codeBlock(language, text string) string {
	text, fence := turn.Truncate(text, 400), "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + language + "\n" + text + "\n" + fence + "\n"
}

// Summary returns the line that the Web UI shows for a text: on one line, printable, escaped for Markdown, at most 200
// bytes.
func Summary(text string) string { return turn.Truncate(escapeCell(printable.Line(text, 160)), 200) }

// timer returns the options of a timer that the Web UI shows with the given name.
func timer(name string) workflow.TimerOptions {
	return workflow.TimerOptions{Summary: turn.Truncate(name, 200)}
}

// awaitWithin waits until ok returns true, for at most the time within. It returns false if that time has passed, and
// an error if ctx is cancelled. name is the name of its timer in the Web UI.
func awaitWithin(ctx workflow.Context, within time.Duration, name string, ok func() bool) (bool, error) {
	return workflow.AwaitWithOptions(ctx, workflow.AwaitOptions{Timeout: within, TimerOptions: timer(name)}, ok)
}

// escapeCell escapes text of a model or a tool, so that it is not rendered as Markdown or HTML.
func escapeCell(s string) string {
	return cellEscaper.Replace(s)
}

var cellEscaper = strings.NewReplacer("\n", " ", "\r", " ", "|", `\|`, "<", "&lt;", ">", "&gt;", "&", "&amp;",
	"[", `\[`, "]", `\]`, "`", "\\`", "*", `\*`, "_", `\_`, "\\", `\\`)
