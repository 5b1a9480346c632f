package app

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/trust"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
)

// Load reads the configuration: defaults, file, environment, flags. An agent.toml that is found in the working folder
// counts only if the user trusts it: on a terminal, Load asks. A file that --config names is the user's word.
func (a *App) Load() (*config.Loaded, error) { return a.load(a.askForTrust) }

// LoadSilently is Load for shell completion, which cannot ask.
func (a *App) LoadSilently() (*config.Loaded, error) {
	return a.load(func(f trust.Folder, r *trust.Record) error { return untrusted(f, r) })
}

// LoadToShow is Load for commands that only show the configuration: an untrusted file is shown, too.
func (a *App) LoadToShow() (*config.Loaded, error) {
	loaded, err := a.load(nil)
	if err == nil && loaded.Path != "" && a.ConfigPath == "" && !a.trusts(".") {
		a.Note("other commands use this file only after you have trusted it: see `everturn trust --show`")
	}
	return loaded, err
}

// load reads the configuration. ifUntrusted, if it is not nil, decides about a found file that the user does not trust;
// r is what the user trusts of an earlier version, or nil.
func (a *App) load(ifUntrusted func(f trust.Folder, r *trust.Record) error) (*config.Loaded, error) {
	o := config.LoadOptions{Path: a.ConfigPath, Environ: a.Environ, Overrides: a.Overrides}
	if a.ConfigPath == "" {
		f, err := trust.Look(".", a.Environ)
		if err != nil {
			return nil, AsUsage(err)
		}
		if err := a.checkTrust(f, ifUntrusted); err != nil {
			return nil, err
		}
		o.Content = append([]byte{}, f.Content...)
	}
	loaded, err := config.Load(o)
	if err != nil {
		return nil, err
	}
	if r := &loaded.Config.Runtime; r.TrustWorkspace == nil {
		instructs := a.instructs(r.Workspace)
		r.TrustWorkspace = &instructs
	}
	return loaded, nil
}

func (a *App) checkTrust(f trust.Folder, ifUntrusted func(trust.Folder, *trust.Record) error) error {
	if f.Settings == nil || a.TrustOnce || ifUntrusted == nil {
		return nil
	}
	j, err := trust.Open(a.Environ)
	if err != nil {
		return Usage("agent.toml in %s is not trusted: %w; or use --trust-once", f.Root, err)
	}
	if trusted, err := j.Trusts(f); trusted || err != nil {
		return asUsageOrNil(err)
	}
	r, err := j.Find(f.Root)
	if err != nil {
		return AsUsage(err)
	}
	return ifUntrusted(f, r)
}

// instructs reports whether the AGENTS.md and the skills of a workspace count: the user trusts the working folder,
// which it is in, or the workspace itself.
func (a *App) instructs(workspace string) bool {
	if trust.Inside(".", workspace) {
		return a.TrustOnce || a.trusts(".")
	}
	return a.trusts(workspace)
}

// trusts reports whether the user trusts a folder as it is. What cannot be read is not trusted.
func (a *App) trusts(folder string) bool {
	j, err := trust.Open(a.Environ)
	if err != nil {
		return false
	}
	f, err := trust.Look(folder, a.Environ)
	if err != nil {
		return false
	}
	trusted, err := j.Trusts(f)
	return trusted && err == nil
}

// untrusted refuses a file that is not trusted, or no longer.
func untrusted(f trust.Folder, r *trust.Record) error {
	what := "agent.toml in %s is not trusted"
	if r != nil {
		what = "agent.toml in %s, or a file that it runs, has changed since you trusted it"
	}
	return Usage(what+", so nothing of it was used: see what it does with `everturn trust --show`, then trust it with "+
		"`everturn trust`, or for one command with --trust-once", f.Root)
}

// askForTrust asks the user whether to trust a folder, and records a yes.
func (a *App) askForTrust(f trust.Folder, r *trust.Record) error {
	if !a.OnTerminal() {
		return untrusted(f, r)
	}
	text, err := DescribeFolder(f, r)
	if err != nil {
		return AsUsage(err)
	}
	ctx := cmp.Or(a.Context, context.Background())
	DiscardInput(a.In)
	yes, err := a.Seen(ctx, text)
	if err == nil && yes {
		yes, err = a.Agrees(ctx, "trust this folder, and use its agent.toml?")
	}
	switch {
	case err != nil:
		return err
	case !yes:
		return Usage("nothing of agent.toml in %s was used, because you do not trust it", f.Root)
	}
	return a.Trust(f)
}

// Trust records that the user trusts a folder as it is.
func (a *App) Trust(f trust.Folder) error {
	j, err := trust.Open(a.Environ)
	if err == nil {
		err = j.Add(f, time.Now())
	}
	return asUsageOrNil(err)
}

func asUsageOrNil(err error) error {
	if err == nil {
		return nil
	}
	return AsUsage(err)
}

// DescribeFolder says what a folder would do, or what has changed in it since the user trusted r. The folder's own text
// is in it with each character that a terminal obeys or does not show written as an escape.
func DescribeFolder(f trust.Folder, r *trust.Record) (string, error) {
	var b strings.Builder
	title := "you do not trust this folder yet: "
	sections := f.Sections()
	if r != nil && f.Settings != nil {
		changes, err := f.Changes(*r)
		if err != nil {
			return "", err
		}
		title = "this folder has changed since you trusted it: "
		sections = []trust.Section{{Title: "change what you trusted by", Lines: changes}}
	}
	b.WriteString(title + oneLine(f.Root) + "\n")
	for _, s := range sections {
		b.WriteString("it would " + s.Title + "\n")
		for _, line := range s.Lines {
			b.WriteString("  " + oneLine(line) + "\n")
		}
	}
	return strings.TrimRight(b.String(), "\n"), nil
}

// oneLine returns a text of a folder as one line in which everything is visible.
func oneLine(s string) string { return strings.ReplaceAll(termsafe.Visible(s), "\n", `\n`) }
