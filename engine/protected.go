package engine

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/everturn/everturn/activities/tools/files"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/temporalconn"
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
	for _, name := range []string{"TEMPORAL_CONFIG_FILE", "TEMPORAL_TLS_CLIENT_KEY_PATH"} {
		path, _ := environ.LookupEnv(name)
		add(true, "a key for Temporal", path)
	}
	if cfg.Journal.Driver != config.DriverPostgres {
		add(true, "the journal", sqliteFiles(cfg.Journal.Path)...)
	}
	_, tape, _ := strings.Cut(cfg.LLM.Tape, ":")
	add(true, "a tape", tape)
	if _, err := os.Stat(filepath.Join(cfg.Canvas.Repo, "HEAD")); cfg.Canvas.Repo != "" && err == nil { // it is bare
		add(true, "the repository of canvases", cfg.Canvas.Repo)
	}
	add(false, "the certificate of the codec server", cfg.CodecServer.TLSCert)
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

// programs returns the files that a server runs: its command, wherever PATH may find it, and those of its arguments
// that are files or look like paths of files that do not exist yet. Arguments that are directories are what many
// servers work on.
func programs(s config.MCPServer, environ temporalconn.Environ) (out []string) {
	if s.Command == "" {
		return nil
	}
	if strings.Contains(s.Command, "/") {
		out = append(out, from(s.Dir, s.Command))
	} else {
		inherited, _ := environ.LookupEnv("PATH")
		for _, dir := range filepath.SplitList(cmp.Or(s.Env["PATH"].Reveal(), inherited)) {
			if filepath.IsAbs(dir) {
				out = append(out, filepath.Join(dir, s.Command))
			}
		}
	}
	bases := []string{s.Dir}
	var names []string
	for _, arg := range s.Args {
		if _, value, ok := strings.Cut(arg, "="); ok {
			arg = value
		}
		if info, err := os.Stat(from(s.Dir, arg)); err == nil && info.IsDir() {
			bases = append(bases, from(s.Dir, arg)) // as in: uv --directory DIR run FILE
		} else if !strings.HasPrefix(arg, "-") && arg != "" {
			names = append(names, arg)
		}
	}
	for _, base := range bases {
		for _, name := range names {
			path := from(base, name)
			info, err := os.Stat(path)
			if err == nil && info.Mode().IsRegular() || err != nil && strings.ContainsAny(name, "./") {
				out = append(out, path)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// from returns a path that is relative to a directory, which is the working directory if it is empty.
func from(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
