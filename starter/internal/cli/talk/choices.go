package talk

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/internal/modelconfig"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/ui/chat"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// choices are the flags that choose the tools, the effort, the temperature and the plan of the turn that begins with a
// message, and attach files to the message.
type choices struct {
	effort      string
	attach      []string
	tools       []string
	temperature float64
	plan        bool
	confirm     string
}

// register adds the flags.
func (c *choices) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&c.tools, "tools", nil, "offer only the tools that match these `patterns`, such as local/* or "+
		"mcp/files/read, of those that the policy allows; none offers no tools")
	flags.StringSliceVar(&c.attach, "attach", nil, "attach this image or PDF `file` to the message; several are possible")
	flags.BoolVar(&c.plan, "plan", false, "let the model propose a plan, and change nothing before you confirm it")
	app.Choose(cmd, flags, &c.confirm, "confirm", "",
		"what you confirm of a plan: plan (the default of --plan), step (the plan and each later step) or never; "+
			"implies --plan; todo is a list that the model keeps, and binds nothing",
		string(plan.ConfirmPlan), string(plan.ConfirmStep), string(plan.ConfirmNever), string(plan.Todo))
	app.Choose(cmd, flags, &c.effort, "effort", "", "how hard the model reasons: "+strings.Join(efforts(), ", ")+
		"; a model that lacks a level gets the next lower one", efforts()...)
	flags.Float64Var(&c.temperature, "temperature", 0, "the sampling temperature of the turn, from 0 to 2")
}

// efforts returns the levels of effort, weakest first.
func efforts() (out []string) {
	for _, e := range turn.Efforts() {
		out = append(out, string(e))
	}
	return out
}

// apply sets the fields of a message that the flags choose, and returns an error for invalid choices.
func (c choices) apply(cmd *cobra.Command, m *turn.UserMessage) error {
	if m.Tools = c.tools; cmd.Flags().Changed("tools") && len(c.tools) == 0 {
		return app.Usage("--tools is empty: name the tools to offer; `--tools none` offers none")
	}
	m.Effort = turn.Effort(c.effort)
	if cmd.Flags().Changed("temperature") {
		m.Temperature = &c.temperature
	}
	if m.Plan = plan.Confirm(c.confirm); c.plan && m.Plan == "" {
		m.Plan = plan.ConfirmPlan
	}
	if err := workflows.CheckChoices(*m); err != nil {
		return app.Usage("--tools, --temperature: %w", err)
	}
	return nil
}

// prompt returns the text of the message (see App.Prompt), which may be empty if a file is attached.
func (c choices) prompt(ctx context.Context, a *app.App, args []string) (string, error) {
	if len(c.attach) > 0 {
		return a.PromptOrNone(ctx, args)
	}
	return a.Prompt(ctx, args)
}

// attachments reads the files to attach.
func (c choices) attachments() (list []client.Attachment, err error) {
	for _, path := range c.attach {
		a, err := chat.ReadAttachment(path)
		switch {
		case errors.Is(err, chat.ErrNotMedia):
			return nil, app.Usage("--attach %s: %w: name the file in the message, and the model reads it with its tools",
				app.Quoted(path), err)
		case err != nil:
			return nil, app.Usage("--attach: %w", err)
		}
		list = append(list, a)
	}
	return list, nil
}

// noteUnseen prints a note if there are attachments and the model does not take images, so that it gets only a
// description of them.
func noteUnseen(t *app.TurnClient, attachments []client.Attachment, model string) {
	if len(attachments) > 0 && !modelconfig.SeesImages(t.Cfg, model) {
		t.App.Note("the model takes no images: it is told what was attached, but cannot see it. Choose another one with " +
			"--model, or describe what it can do under [[models]]")
	}
}

// noteMerged prints a note if a message with choices, or with an agent, was merged into a running turn, because the
// turn keeps its own. A queued message gets a turn of its own.
func noteMerged(t *app.TurnClient, s app.Started, m turn.UserMessage, agent string) {
	if s.Merged && !s.Queued && (m.Chooses() || agent != "") {
		t.App.Note("the message was merged into the running turn, which keeps its agent, model, effort, tools, temperature, plan " +
			"and limits")
	}
}
