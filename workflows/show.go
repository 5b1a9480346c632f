package workflows

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

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
)

// SearchAttributes returns all search attributes of a turn.
func SearchAttributes() []temporal.SearchAttributeKey {
	return []temporal.SearchAttributeKey{AttrSession, AttrAgent, AttrModel, AttrState, AttrFinishReason, AttrTools,
		AttrTokens}
}

// maxToolsShown bounds the tools in the search attributes and details.
const maxToolsShown = 16

// maxToolsBytes bounds the tools' names together, in bytes. The server fails a workflow task with an attribute over 2
// KiB.
const maxToolsBytes = 1500

// upsertResult records the turn's end in the search attributes. The starter sets what is known at the start, so a turn
// that never waits needs only this one event.
func (r *run) upsertResult(ctx workflow.Context, e turn.Result) error {
	p := r.progress
	updates := []temporal.SearchAttributeUpdate{
		AttrSession.ValueSet(r.session), AttrState.ValueSet(string(e.State)),
		AttrFinishReason.ValueSet(string(e.Reason)), AttrTokens.ValueSet(p.Counters.Usage.Total()),
	}
	if p.Config.Agent != "" {
		updates = append(updates, AttrAgent.ValueSet(p.Config.Agent), AttrModel.ValueSet(p.Config.Model))
	}
	if len(r.progress.Tools) > 0 {
		updates = append(updates, AttrTools.ValueSet(r.progress.Tools))
	}
	return workflow.UpsertTypedSearchAttributes(ctx, updates...)
}

// upsertState records the state of a turn that has not ended.
func (r *run) upsertState(ctx workflow.Context, s turn.State) error {
	return workflow.UpsertTypedSearchAttributes(ctx, AttrState.ValueSet(string(s)))
}

// show updates the run's current details, which an operator sees in the Web UI, before a phase that takes time.
func (r *run) show(ctx workflow.Context) {
	workflow.SetCurrentDetails(ctx, r.details(string(r.phase)))
}

func (r *run) showEnding(ctx workflow.Context, e turn.Result) {
	workflow.SetCurrentDetails(ctx, r.details(string(e.State)+" ("+string(e.Reason)+")"))
}

func (r *run) details(state string) string {
	c, cfg := r.progress.Counters, r.progress.Config
	var b strings.Builder
	b.WriteString("| | |\n|---|---|\n")
	for _, row := range [][2]string{
		{"state", state}, {"turn", r.turnID}, {"model", cfg.Model},
		{"steps", fmt.Sprintf("%d of %d", c.Spent, cfg.Limits.MaxSteps)},
		{"tool calls", fmt.Sprintf("%d of %d", c.ToolCalls, cfg.Limits.MaxToolCalls)},
		{"tools", strings.Join(r.progress.Tools, ", ")},
		{"tokens", fmt.Sprintf("%d in, %d out", c.Usage.InputTokens, c.Usage.OutputTokens)},
		{"said", turn.Truncate(r.progress.LastText, 400)}, {"waits for", r.requests.summary()},
	} {
		if row[0] == "waits for" && row[1] == "" {
			continue
		}
		fmt.Fprintf(&b, "| %s | %s |\n", row[0], escapeCell(row[1]))
	}
	return b.String()
}

// escapeCell prevents text of a model or a tool from being rendered as Markdown or HTML.
func escapeCell(s string) string {
	return cellEscaper.Replace(s)
}

var cellEscaper = strings.NewReplacer("\n", " ", "\r", " ", "|", `\|`, "<", "&lt;", ">", "&gt;", "&", "&amp;",
	"[", `\[`, "]", `\]`, "`", "\\`", "*", `\*`, "_", `\_`, "\\", `\\`)
