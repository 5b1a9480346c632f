package workflows

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// The search attributes of a turn. The server refuses workflow tasks that use one that it does not know, so a worker
// adds them before it polls.
var (
	AttrSession      = temporal.NewSearchAttributeKeyKeyword("EverturnSession")
	AttrAgent        = temporal.NewSearchAttributeKeyKeyword("EverturnAgent")
	AttrModel        = temporal.NewSearchAttributeKeyKeyword("EverturnModel")
	AttrState        = temporal.NewSearchAttributeKeyKeyword("EverturnState")
	AttrFinishReason = temporal.NewSearchAttributeKeyKeyword("EverturnFinishReason")
	AttrTools        = temporal.NewSearchAttributeKeyKeywordList("EverturnTools")
	AttrTokens       = temporal.NewSearchAttributeKeyInt64("EverturnTokens")
	AttrCost         = temporal.NewSearchAttributeKeyFloat64("EverturnCostUSD")
)

// SearchAttributes are all of them.
func SearchAttributes() []temporal.SearchAttributeKey {
	return []temporal.SearchAttributeKey{AttrSession, AttrAgent, AttrModel, AttrState, AttrFinishReason, AttrTools, AttrTokens, AttrCost}
}

// maxToolsShown bounds the tools in the search attributes and details.
const maxToolsShown = 16

// maxToolsBytes bounds their names together: the server fails a workflow task with an attribute over 2 KiB.
const maxToolsBytes = 1500

// upsert records how the turn ended where it can be searched. It is the run's only upsert: what is known at the start
// the starter has set, and one event a turn is enough.
func (r *run) upsert(ctx workflow.Context, e turn.Result) error {
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
	if !p.Counters.CostUnknown {
		updates = append(updates, AttrCost.ValueSet(p.Counters.CostUSD))
	}
	return workflow.UpsertTypedSearchAttributes(ctx, updates...)
}

// upsertState records where the turn stands while it is not over.
func (r *run) upsertState(ctx workflow.Context, s turn.State) error {
	return workflow.UpsertTypedSearchAttributes(ctx, AttrState.ValueSet(string(s)))
}

// show brings the run's current details up to date, which an operator sees in the Web UI, before a phase that takes time.
func (r *run) show(ctx workflow.Context) {
	workflow.SetCurrentDetails(ctx, r.details(string(r.phase)))
}

func (r *run) showEnding(ctx workflow.Context, e turn.Result) {
	workflow.SetCurrentDetails(ctx, r.details(string(e.State)+" ("+string(e.Reason)+")"))
}

func (r *run) details(state string) string {
	c, cfg := r.progress.Counters, r.progress.Config
	cost := "unknown"
	if !c.CostUnknown {
		cost = fmt.Sprintf("%.4f USD", c.CostUSD)
	}
	var b strings.Builder
	b.WriteString("| | |\n|---|---|\n")
	for _, row := range [][2]string{
		{"state", state}, {"turn", r.turnID}, {"model", cfg.Model},
		{"steps", fmt.Sprintf("%d of %d", c.Spent, cfg.Limits.MaxSteps)},
		{"tool calls", fmt.Sprintf("%d of %d", c.ToolCalls, cfg.Limits.MaxToolCalls)},
		{"tools", strings.Join(r.progress.Tools, ", ")},
		{"tokens", fmt.Sprintf("%d in, %d out", c.Usage.InputTokens, c.Usage.OutputTokens)}, {"cost", cost},
		{"said", turn.Truncate(r.progress.LastText, 400)}, {"waits for", r.desk.summary()},
	} {
		if row[0] == "waits for" && row[1] == "" {
			continue
		}
		fmt.Fprintf(&b, "| %s | %s |\n", row[0], escapeCell(row[1]))
	}
	return b.String()
}

// escapeCell keeps a model's or tool's text from being read as Markdown or HTML.
func escapeCell(s string) string {
	return cellEscaper.Replace(s)
}

var cellEscaper = strings.NewReplacer("\n", " ", "\r", " ", "|", `\|`, "<", "&lt;", ">", "&gt;", "&", "&amp;",
	"[", `\[`, "]", `\]`, "`", "\\`", "*", `\*`, "_", `\_`, "\\", `\\`)
