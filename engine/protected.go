package engine

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

// fileRules returns the rules of the file tools.
func fileRules(cfg config.Config, environ temporalconn.Environ) files.Options {
	l := cfg.LocalFiles
	return files.Options{Deny: l.Deny, HardLinks: l.HardLinks, Write: l.Write, Protected: protectedFiles(cfg, environ)}
}

// protectedFiles returns the files that a configuration names: its own, the journal, keys and tapes, which no tool
// reads or changes, and the skills and the programs of MCP servers, which no tool changes.
func protectedFiles(cfg config.Config, environ temporalconn.Environ) (out []files.Protected) {
	add := func(unread bool, use string, paths ...string) {
		for _, p := range paths {
			if p != "" {
				out = append(out, files.Protected{Path: p, Unread: unread, Use: use})
			}
		}
	}
	add(true, "the configuration", cfg.Sources()...)
	add(true, "a key", cfg.Encryption.KeyFile, cfg.CodecServer.TLSKey)
	add(true, "a key for Temporal", temporalFiles(environ)...)
	if cfg.Journal.Driver != config.DriverPostgres {
		add(true, "the journal", sqliteFiles(cfg.Journal.Path)...)
	}
	_, tape, _ := strings.Cut(cfg.LLM.Tape, ":")
	add(true, "a tape", tape)
	if _, err := os.Stat(filepath.Join(cfg.Canvas.Repo, "HEAD")); cfg.Canvas.Repo != "" && err == nil { // it is bare
		add(true, "the repository of canvases", cfg.Canvas.Repo)
	}
	add(false, "the certificate of the codec server", cfg.CodecServer.TLSCert)
	for _, name := range []string{projectFile, ".agents", ".claude"} { // links lead to what is read
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

// sqliteFiles returns the files of a SQLite database. It has them where the file is to which a link leads.
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

// programs returns the files that a server may run: its whole directory if they are too many to find.
func programs(s config.MCPServer, environ temporalconn.Environ) (out []string) {
	here, err := os.Getwd()
	if err != nil {
		here = "."
	}
	found, err := trust.Programs(s, here, func(name string) string { v, _ := environ.LookupEnv(name); return v })
	if err != nil {
		return []string{cmp.Or(s.Dir, here)}
	}
	for _, p := range found {
		out = append(out, p.Path)
	}
	return out
}

// temporalFiles returns the files of Temporal's own configuration: it has keys, and names files of keys.
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
