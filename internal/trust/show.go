package trust

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/printable"
)

// Section is a list of actions of one kind that a folder's content would cause. The lines contain text from the
// folder, which the caller must make safe for a terminal.
type Section struct {
	Title string
	Lines []string
}

// Sections returns what the content of the folder would cause if the user trusted it.
func (f Folder) Sections() []Section {
	sections := []Section{{Title: "give the model the instructions of", Lines: f.Instructions()}}
	if f.Settings != nil {
		settings, _ := f.Settings.Changes()
		var files []string
		programs, err := f.programs()
		if err != nil {
			files = append(files, err.Error())
		}
		for _, path := range programs {
			files = append(files, f.recordName(path))
		}
		secrets := f.secretFiles()
		for _, written := range slices.Sorted(maps.Keys(secrets)) {
			line := written
			if real := f.recordName(secrets[written]); real != written {
				line += leads("", leadsTo+real)
			}
			files = append(files, line)
		}
		sections = []Section{
			{"run", f.commands()},
			{"connect to", f.addresses()},
			sections[0],
			{"use these settings", settings},
			{"ask again when one of these files changes", append([]string{config.DefaultPath}, files...)},
		}
	}
	return withoutEmpty(sections)
}

// withoutEmpty removes the sections without lines.
func withoutEmpty(sections []Section) []Section {
	return slices.DeleteFunc(sections, func(s Section) bool { return len(s.Lines) == 0 })
}

// Instructions returns the names of the files and folders in the folder that contain instructions for the model.
func (f Folder) Instructions() (found []string) {
	for _, name := range []string{"AGENTS.md", ".agents/skills", ".claude/skills"} {
		if _, err := os.Lstat(filepath.Join(f.Root, name)); err == nil {
			found = append(found, name)
		}
	}
	return found
}

// commands returns a line for each program that the settings start, with the values of its environment variables, many
// of which decide what runs.
func (f Folder) commands() (lines []string) {
	c := f.Settings.Config
	for _, s := range c.MCP.Servers {
		if s.Command == "" {
			continue
		}
		words := []string{quoted(s.Command)}
		for _, arg := range s.Args {
			words = append(words, quoted(arg))
		}
		about := "server " + quoted(s.ID)
		var environment []string
		for _, name := range slices.Sorted(maps.Keys(s.Env)) {
			environment = append(environment, quoted(name)+"="+quoted(s.Env[name].Reveal()))
		}
		for _, name := range s.EnvAllow {
			environment = append(environment, quoted(name))
		}
		if len(environment) > 0 {
			about += "; environment: " + strings.Join(environment, " ")
		}
		lines = append(lines, fmt.Sprintf("%s   (%s)", strings.Join(words, " "), about))
	}
	if c.Shell.Enabled {
		lines = append(lines, "commands of the model   (shell.enabled)")
	}
	if c.Workspace.Setup != "" {
		lines = append(lines, quoted(c.Workspace.Setup)+"   (workspace.setup, isolated)")
	}
	if pull := c.Workspace.Publish.PullRequest; len(pull) > 0 {
		words := make([]string, len(pull))
		for i, word := range pull {
			words[i] = quoted(word)
		}
		about := "workspace.publish.pull_request"
		if names := c.Workspace.Publish.EnvAllow; len(names) > 0 {
			about += "; environment: " + quoted(strings.Join(names, " "))
		}
		lines = append(lines, strings.Join(words, " ")+"   ("+about+")")
	}
	if c.Workspace.Mode == config.WorkspaceTree {
		lines = append(lines, "git in "+quoted(c.Runtime.Workspace)+"   (workspace.mode)")
	}
	return lines
}

// addresses returns a line for each address in the settings, with the data and keys that it gets.
func (f Folder) addresses() (lines []string) {
	c := f.Settings.Config
	add := func(address, key, gets string) {
		if address != "" {
			address = quoted(printable.WithoutPassword(address))
			lines = append(lines, fmt.Sprintf("%s   (%s; gets %s)", address, key, gets))
		}
	}
	add(c.Journal.URL.Reveal(), "journal.url", "conversations, approvals and PGPASSWORD")
	if c.Workspace.Mode == config.WorkspaceTree {
		add(c.Workspace.Remote.Reveal(), "workspace.remote", "the files of sessions")
	}
	add(c.Workspace.Publish.Remote.Reveal(), "workspace.publish.remote",
		"what sessions have changed, when a user allows it")
	add(c.LLM.BaseURL, "llm.base_url", "conversations and "+describeSecret(c.LLM.APIKey, "OPENAI_API_KEY"))
	modelsKeys := strings.Join(config.Secret(c.LLM.ModelsURL).References(), " ")
	add(c.LLM.ModelsURL, "llm.models_url", cmp.Or(modelsKeys, "no data"))
	for _, p := range c.Providers {
		add(p.BaseURL, "provider "+quoted(string(p.ID)), "conversations and "+describeSecret(p.APIKey,
			config.KeyVariable(p.ID)))
	}
	for _, s := range c.MCP.Servers {
		gets := []string{"calls"}
		for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
			gets = append(gets, quoted(name)+" with "+describeSecret(s.Headers[name], "nothing"))
		}
		add(s.URL, "server "+quoted(s.ID), strings.Join(gets, ", "))
		add(s.OAuth.TokenURL, "server "+quoted(s.ID), describeSecret(s.OAuth.ClientSecret, "no secret"))
	}
	add(c.Temporal.Address, "temporal.address", "messages and TEMPORAL_API_KEY")
	add(c.CodecServer.OIDCIssuer, "codec_server.oidc_issuer", "no data")
	return lines
}

// describeSecret names the content of a secret without revealing it: the variables that it refers to. If the secret
// is not set, it returns otherwise.
func describeSecret(s config.Secret, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return cmp.Or(strings.Join(s.References(), " "), "a key in agent.toml")
}

// quoted quotes a word if it has characters other than letters, digits and common punctuation.
func quoted(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@+,=${}"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return strconv.Quote(s)
}

// Changes returns the differences between the folder and the record of what the user trusts. A line that begins with
// "- " is a removed setting, one with "+ " a new setting. Of values that are hidden, it only says that they changed.
func (f Folder) Changes(r Record) ([]string, error) {
	files, err := f.Files()
	if err != nil || f.Settings == nil {
		return nil, err
	}
	var lines []string
	now, hashes := f.Settings.Changes()
	for _, l := range r.Settings {
		if !slices.Contains(now, l) {
			lines = append(lines, "- "+l)
		}
	}
	for _, l := range now {
		if !slices.Contains(r.Settings, l) {
			lines = append(lines, "+ "+l)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(hashes)) {
		if before, known := r.Hashes[key]; known && before != hashes[key] {
			lines = append(lines, fmt.Sprintf("a secret of %s changed", key))
		}
	}
	if r.Files[config.DefaultPath] != files[config.DefaultPath] && len(lines) == 0 {
		lines = append(lines, "agent.toml: a comment or the order")
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		switch before, known := r.Files[name]; {
		case name == config.DefaultPath:
		case !known:
			lines = append(lines, "new file "+name+leads("", files[name]))
		case before != files[name]:
			lines = append(lines, "changed file "+name+leads(before, files[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Files)) {
		if _, exists := files[name]; !exists {
			lines = append(lines, "removed file "+name+leads(r.Files[name], ""))
		}
	}
	return lines, nil
}

// leads returns the end of a line about a file of a record: where it leads now, and where it led before, if it is or
// was a link. Both are content of a record: see Folder.Files.
func leads(before, now string) (text string) {
	if target, ok := strings.CutPrefix(now, leadsTo); ok {
		text = ", which leads to " + target
		if filepath.IsAbs(target) {
			text += ", outside of the folder"
		}
	}
	if target, ok := strings.CutPrefix(before, leadsTo); ok {
		text += "; it led to " + target + " before"
	}
	return text
}
