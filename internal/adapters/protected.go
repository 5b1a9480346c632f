package adapters

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"go.temporal.io/sdk/contrib/envconfig"

	"github.com/everturn/everturn/activities/tools/files"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/internal/trust"
)

// fileRules returns what the file tools may do in the workspace, and which files they must not touch.
func fileRules(cfg config.Config, environ temporalconn.Environ) files.Options {
	l := cfg.LocalFiles
	return files.Options{Deny: l.Deny, HardLinks: l.HardLinks, Write: l.Write, Protected: protectedFiles(cfg, environ)}
}

// protectedFiles returns the files that a configuration names: its own, the journal, keys and tapes, which no tool
// reads or changes, and the skills and the programs of MCP servers, which no tool changes.
func protectedFiles(cfg config.Config, environ temporalconn.Environ) (out []files.Protected) {
	// add protects paths that are not empty. unread means that no tool may read them either; use tells the model what they
	// are.
	add := func(unread bool, use string, paths ...string) {
		for _, p := range paths {
			if p != "" {
				out = append(out, files.Protected{Path: p, Unread: unread, Use: use})
			}
		}
	}
	add(true, "the configuration", cfg.Sources()...)
	add(true, "a key", cfg.Encryption.KeyFile)
	add(true, "a key for Temporal", temporalFiles(environ)...)
	if !cfg.Journal.Postgres() {
		add(true, "the journal", sqliteFiles(cfg.Journal.Path)...)
	}
	_, tape, _ := strings.Cut(cfg.LLM.Tape, ":")
	add(true, "a tape", tape)
	for _, name := range []string{projectFile, ".agents", ".claude"} { // if one is a link, its target is protected too
		add(false, "instructions for agents", filepath.Join(cfg.Runtime.Workspace, name))
	}
	for _, s := range cfg.Skills.Sources {
		add(false, "a skill", s.Path)
	}
	for _, s := range cfg.MCP.Servers {
		add(false, "a program of MCP server "+s.ID, programs(s, environ)...)
	}
	return out
}

// sqliteFiles returns the database at path and the files that SQLite keeps beside it. If path is a symbolic link,
// SQLite keeps them beside the link's target, so sqliteFiles returns both names of each.
func sqliteFiles(path string) (out []string) {
	paths := []string{path}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		paths = append(paths, real)
	}
	for _, p := range paths {
		out = append(out, p, p+"-wal", p+"-shm", p+"-journal")
	}
	return out
}

// programs returns the files that a stdio MCP server may run. If they cannot be determined, for instance because its
// command line names too many files, it returns the directory in which the server runs.
func programs(s config.MCPServer, environ temporalconn.Environ) (out []string) {
	workingDir, err := os.Getwd()
	if err != nil {
		workingDir = "."
	}
	found, err := trust.Programs(s, workingDir, func(name string) string { v, _ := environ.LookupEnv(name); return v })
	if err != nil {
		return []string{cmp.Or(s.Dir, workingDir)}
	}
	for _, p := range found {
		out = append(out, p.Path)
	}
	return out
}

// temporalFiles returns the files of Temporal's own configuration that hold keys: temporal.toml, and the files of TLS
// keys that it and the environment name.
func temporalFiles(environ temporalconn.Environ) []string {
	named, _ := environ.LookupEnv("TEMPORAL_CONFIG_FILE")
	key, _ := environ.LookupEnv("TEMPORAL_TLS_CLIENT_KEY_PATH")
	paths := []string{cmp.Or(named, envconfig.DefaultConfigFilePath()), key}
	cfg, err := envconfig.LoadClientConfig(envconfig.LoadClientConfigOptions{EnvLookup: environ})
	if err != nil {
		return paths
	}
	for _, profile := range cfg.Profiles {
		if profile.TLS != nil {
			paths = append(paths, profile.TLS.ClientKeyPath)
		}
	}
	return paths
}
