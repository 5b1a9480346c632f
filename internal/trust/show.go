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

// Section is a part of what a folder would do, with a line for each item. The lines hold text of the folder: the caller
// makes them safe for a terminal.
type Section struct {
	Title string
	Lines []string
}

// Sections returns what an untrusted folder would do.
func (f Folder) Sections() []Section {
	sections := []Section{{Title: "give the model the instructions of", Lines: f.Instructions()}}
	if f.Settings != nil {
		var files []string
		programs, err := f.programs()
		if err != nil {
			files = append(files, err.Error())
		}
		for _, path := range programs {
			files = append(files, f.name(path))
		}
		sections = []Section{
			{"run", f.commands()},
			{"connect to", f.addresses()},
			sections[0],
			{"use these settings", f.Settings.Changes()},
			{"ask again when one of these files changes", append([]string{config.DefaultPath}, files...)},
		}
	}
	return tidy(sections)
}

// tidy removes empty sections.
func tidy(sections []Section) []Section {
	return slices.DeleteFunc(sections, func(s Section) bool { return len(s.Lines) == 0 })
}

// Instructions returns what in the folder instructs the model.
func (f Folder) Instructions() (found []string) {
	for _, name := range []string{"AGENTS.md", ".agents/skills", ".claude/skills"} {
		if _, err := os.Lstat(filepath.Join(f.Root, name)); err == nil {
			found = append(found, name)
		}
	}
	return found
}

// choosing are environment variables that choose which programs run. Their values are shown.
var choosing = []string{"PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "BASH_ENV", "ENV", "NODE_OPTIONS", "NODE_PATH",
	"PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "RUBYOPT", "RUBYLIB", "PERL5OPT", "PERL5LIB", "JAVA_TOOL_OPTIONS"}

// commands returns the programs that the settings start.
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
		names := slices.Concat(slices.Sorted(maps.Keys(s.Env)), s.EnvAllow)
		for i, name := range names {
			if value, ok := s.Env[name]; ok && slices.Contains(choosing, name) {
				names[i] += "=" + quoted(value.Reveal())
			}
		}
		if len(names) > 0 {
			about += "; environment: " + strings.Join(names, " ")
		}
		lines = append(lines, fmt.Sprintf("%s   (%s)", strings.Join(words, " "), about))
	}
	if c.Shell.Enabled {
		lines = append(lines, "commands of the model   (shell.enabled)")
	}
	if c.Canvas.Repo != "" {
		lines = append(lines, "git in "+quoted(c.Canvas.Repo)+"   (canvas.repo)")
	}
	return lines
}

// addresses returns the addresses that the settings name, and what each gets.
func (f Folder) addresses() (lines []string) {
	c := f.Settings.Config
	add := func(address, key, gets string) {
		if address != "" {
			lines = append(lines, fmt.Sprintf("%s   (%s; gets %s)", cmp.Or(printable.Address(address), quoted(address)), key,
				gets))
		}
	}
	add(c.LLM.BaseURL, "llm.base_url", "conversations and "+secret(c.LLM.APIKey, "OPENAI_API_KEY"))
	for _, p := range c.Providers {
		add(p.BaseURL, "provider "+quoted(string(p.ID)), "conversations and "+secret(p.APIKey, config.KeyVariable(p.ID)))
	}
	for _, s := range c.MCP.Servers {
		gets := []string{"calls"}
		for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
			gets = append(gets, quoted(name)+" with "+secret(s.Headers[name], "nothing"))
		}
		add(s.URL, "server "+quoted(s.ID), strings.Join(gets, ", "))
		add(s.OAuth.TokenURL, "server "+quoted(s.ID), secret(s.OAuth.ClientSecret, "no secret"))
	}
	add(c.Temporal.Address, "temporal.address", "messages and "+secret(c.Temporal.APIKey, "TEMPORAL_API_KEY"))
	return lines
}

// secret names what a secret holds: the references in it, or what applies if it is not set.
func secret(s config.Secret, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return cmp.Or(strings.Join(s.References(), " "), "a key in agent.toml")
}

// quoted quotes a word unless it is plain.
func quoted(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@+,=${}"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return strconv.Quote(s)
}

// Changes returns what differs from what the user trusts: removed lines of the settings begin with "- ", new ones with
// "+ ".
func (f Folder) Changes(r Record) ([]string, error) {
	files, err := f.Files()
	if err != nil || f.Settings == nil {
		return nil, err
	}
	var lines []string
	now := f.Settings.Changes()
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
	if r.Files[config.DefaultPath] != files[config.DefaultPath] && len(lines) == 0 {
		lines = append(lines, "agent.toml: a comment, the order or a secret")
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		switch before, known := r.Files[name]; {
		case name == config.DefaultPath:
		case !known:
			lines = append(lines, "new file "+name)
		case before != files[name]:
			lines = append(lines, "changed file "+name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Files)) {
		if _, exists := files[name]; !exists {
			lines = append(lines, "removed file "+name)
		}
	}
	return lines, nil
}
