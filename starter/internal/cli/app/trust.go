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

// Load reads the configuration: defaults, file, environment, flags. An agent.toml in the working folder requires the
// user's trust: on a terminal Load asks for it, and elsewhere it returns an error. A file that --config names needs no
// trust, because the user has named it.
func (a *App) Load() (*config.Loaded, error) { return a.load(a.askForTrust) }

// LoadSilently is Load for shell completion: it never asks, and returns an error if agent.toml is not trusted.
func (a *App) LoadSilently() (*config.Loaded, error) {
	return a.load(func(f trust.Folder, r *trust.Record) error { return untrusted(f, r) })
}

// LoadToShow is Load for commands that only show the configuration: it also reads an untrusted file, and prints a note
// about it.
func (a *App) LoadToShow() (*config.Loaded, error) {
	loaded, err := a.load(nil)
	if err == nil && loaded.Path != "" && a.ConfigPath == "" && !a.trusts(".") {
		a.Note("other commands use this file only after you have trusted it: see `everturn trust --show`")
	}
	return loaded, err
}

// load reads the configuration. If the working folder has an agent.toml that the user does not trust, load calls
// ifUntrusted and returns its error; if ifUntrusted is nil, load uses the file. r is the user's trust in an earlier
// version of the folder, or nil.
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
		// The content that was checked, because the file may have changed since. It is empty without an agent.toml.
		o.Content = append([]byte{}, f.Content...)
	}
	loaded, err := config.Load(o)
	if err != nil {
		return nil, err
	}
	if r := &loaded.Config.Runtime; r.TrustWorkspace == nil { // the configuration does not say
		trusted := a.trustsWorkspace(r.Workspace)
		r.TrustWorkspace = &trusted
	}
	return loaded, nil
}

// checkTrust calls ifUntrusted if the user does not trust the folder f, and returns its error. It does nothing if f has
// no agent.toml, with --trust-once, or if ifUntrusted is nil.
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

// trustsWorkspace reports whether agents may follow the AGENTS.md and the skills of a workspace: the user trusts the
// working folder, if the workspace is inside it, or the workspace itself.
func (a *App) trustsWorkspace(workspace string) bool {
	if trust.Inside(".", workspace) {
		return a.TrustOnce || a.trusts(".")
	}
	return a.trusts(workspace)
}

// trusts reports whether the user trusts the current content of a folder. It returns false if that cannot be read.
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

// untrusted returns the error for an agent.toml that is not trusted. r is the user's trust in an earlier version of the
// folder, or nil.
func untrusted(f trust.Folder, r *trust.Record) error {
	what := "agent.toml in %s is not trusted"
	if r != nil {
		what = "agent.toml in %s, or a file that it runs, has changed since you trusted it"
	}
	return Usage(what+", so nothing of it was used: see what it does with `everturn trust --show`, then trust it with "+
		"`everturn trust`, or for one command with --trust-once", f.Root)
}

// askForTrust shows what a folder would do and asks the user whether to trust it. It records a yes, and returns an
// error for a no. Without a terminal it returns the error of untrusted.
func (a *App) askForTrust(f trust.Folder, r *trust.Record) error {
	if !a.OnTerminal() {
		return untrusted(f, r)
	}
	text, err := DescribeFolder(f, r)
	if err != nil {
		return AsUsage(err)
	}
	ctx := cmp.Or(a.Context, context.Background())
	DiscardInput(a.In) // keys that were typed before the text appeared are no answer to it
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

// Trust records that the user trusts the folder with the content that f has read.
func (a *App) Trust(f trust.Folder) error {
	j, err := trust.Open(a.Environ)
	if err == nil {
		err = j.Add(f, time.Now())
	}
	return asUsageOrNil(err)
}

// asUsageOrNil is AsUsage for an error that may be nil.
func asUsageOrNil(err error) error {
	if err == nil {
		return nil
	}
	return AsUsage(err)
}

// DescribeFolder returns a text for the user that lists what the files of a folder would do or, if r is not nil, what
// has changed since the user trusted the folder as r records it. Control and invisible characters in text from the
// folder are written as escapes.
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

// oneLine returns a text from a folder as one line, with control and invisible characters written as escapes.
func oneLine(s string) string { return strings.ReplaceAll(termsafe.Visible(s), "\n", `\n`) }
