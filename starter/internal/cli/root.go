package cli

import (
	"github.com/spf13/cobra"

	"github.com/everturn/everturn/internal/version"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/cli/branch"
	"github.com/everturn/everturn/starter/internal/cli/decide"
	"github.com/everturn/everturn/starter/internal/cli/develop"
	"github.com/everturn/everturn/starter/internal/cli/look"
	"github.com/everturn/everturn/starter/internal/cli/schedule"
	"github.com/everturn/everturn/starter/internal/cli/setup"
	"github.com/everturn/everturn/starter/internal/cli/talk"
)

// command returns the root command with all its subcommands and the flags that every command has.
func command(a *app.App) *cobra.Command {
	root := &cobra.Command{
		Use:     "everturn",
		Version: version.String(),
		Short:   "Run, follow and inspect durable agent turns",
		Example: `  everturn run --dev "Which files are here, and what is this project about?"
  everturn show`,
		SilenceUsage:     true,
		SilenceErrors:    true,
		Args:             app.OnlySubcommands,
		RunE:             app.ShowHelp,
		PersistentPreRun: func(*cobra.Command, []string) { a.Parsed = true },
	}
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetFlagErrorFunc(app.FlagError)
	flags := root.PersistentFlags()
	flags.StringVar(&a.ConfigPath, "config", "", "configuration `file` (default: agent.toml, if it exists and is trusted)")
	flags.BoolVar(&a.TrustOnce, "trust-once", false, "trust the working folder for this command: see everturn trust")
	a.Color = app.ColorAuto
	app.Choose(root, flags, &a.Color, "color", "", "color the output: auto, always or never", app.ColorAuto,
		app.ColorAlways,
		app.ColorNever)
	flags.Func("tenant", "the tenant's `name`: use its sessions only (default: EVERTURN_TENANT)",
		func(name string) error { return a.Set("tenant=" + name) })
	flags.Func("set", "set a configuration `key=value`, for example llm.model=gpt-4.1; may be repeated", a.Set)
	for _, g := range groups(a) {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, cmd := range g.commands {
			cmd.GroupID = g.title
			root.AddCommand(cmd)
		}
	}
	root.SetHelpCommandGroupID(groupDevelop)
	root.SetCompletionCommandGroupID(groupDevelop)
	a.SessionFlags(root)
	root.AddCommand(develop.Man(a), develop.DevServer(a))
	root.InitDefaultCompletionCmd("") // cobra's, which without this line accepts every word as a shell
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.Args, cmd.RunE = app.OnlySubcommands, app.ShowHelp
		}
	}
	a.Help(root)
	return root
}

// group is a group of commands in the help.
type group struct {
	title    string
	commands []*cobra.Command
}

const groupDevelop = "Develop"

// groups returns the groups of commands in the order of the help. Cobra sorts the commands within a group by name.
func groups(a *app.App) []group {
	return []group{
		{"Talk", []*cobra.Command{talk.Run(a), talk.Chat(a), talk.Send(a), talk.Attach(a), talk.Stop(a),
			schedule.Command(a)}},
		{"Decide", []*cobra.Command{decide.Approvals(a), decide.Approve(a), decide.Deny(a), decide.Answer(a),
			decide.Result(a)}},
		{"Look", []*cobra.Command{look.List(a), look.Show(a), look.Usage(a), look.Diff(a), look.Open(a)}},
		{"Branch and move", []*cobra.Command{branch.Fork(a), branch.Rewind(a), branch.Canvas(a), talk.Compact(a),
			branch.Export(a), branch.Import(a), branch.Tape(a)}},
		{"Set up", []*cobra.Command{setup.Init(a), setup.Trust(a), setup.Config(a), setup.Doctor(a),
			setup.Tools(a, talk.ToolsCall(a)),
			setup.Journal(a), setup.Keys(a), setup.Codec(a), setup.Limits(a), setup.Tokens(a), setup.Models(a),
			setup.Agents(a), setup.Skills(a), setup.Rollout(a), setup.Workers(a)}},
		{groupDevelop, []*cobra.Command{develop.Dev(a), develop.Worker(a), develop.Serve(a), develop.Events(a),
			develop.Version(a)}},
	}
}
