package toolbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/everturn/everturn/internal/childenv"
)

// childEnv returns the complete environment of a server's process, except for the mark that package stdio adds, and
// those of its values that the operator passed on by name (EnvAllow).
func childEnv(s Server, as *account, lookup func(string) (string, bool)) (env, passed []string, err error) {
	vars := map[string]string{}
	for _, name := range childenv.Base {
		if v, ok := lookup(name); ok {
			vars[name] = v
		}
	}
	if as != nil {
		vars["HOME"], vars["USER"], vars["LOGNAME"] = as.HomeDir, as.Username, as.Username
	}
	for _, name := range s.EnvAllow {
		v, ok := lookup(name)
		if !ok {
			return nil, nil, fmt.Errorf("MCP server %q may inherit %s, which is not set: set it or take it from the list", s.ID, name)
		}
		vars[name] = v
		passed = append(passed, v)
	}
	for name, v := range s.Env {
		vars[name] = v
	}
	for name, v := range vars {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(v, 0) {
			return nil, nil, fmt.Errorf("MCP server %q: environment variable %q: neither name nor value may hold NUL, nor the name =", s.ID, name)
		}
		env = append(env, name+"="+v)
	}
	slices.Sort(env)
	return env, passed, nil
}

// EnvTenant is the variable that tells a server's process which tenant it works for. The host sets it for named tenants
// only.
const EnvTenant = "EVERTURN_TENANT"

// tenantEnv returns the environment of a process that works for this tenant. A value that this program or its operator
// set for EnvTenant applies to the default tenant only.
func tenantEnv(env []string, tenant string) []string {
	if tenant == "" {
		return env
	}
	out := slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return strings.HasPrefix(kv, EnvTenant+"=") })
	return append(out, EnvTenant+"="+tenant)
}

// findCommand returns the file that the server's command names. A relative name with a slash is relative to the
// server's directory, if one is set.
func findCommand(s Server, searchPath string) (string, error) {
	if err := folder(s.Dir); err != nil {
		return "", fmt.Errorf("dir = %q cannot be its working directory: %w", s.Dir, err)
	}
	if strings.ContainsRune(s.Command, '/') {
		file := s.Command
		if !filepath.IsAbs(file) && s.Dir != "" {
			file = filepath.Join(s.Dir, file)
		}
		if err := executable(file); err != nil {
			return "", fmt.Errorf("command %q cannot be run: %w", s.Command, err)
		}
		return filepath.Abs(file)
	}
	for _, dir := range filepath.SplitList(searchPath) {
		file := filepath.Join(dir, s.Command)
		if filepath.IsAbs(file) && executable(file) == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("command %q is not in PATH: install it or give its whole path", s.Command)
}

// folder returns an error if a server cannot be started in the directory. The system's own error would blame the
// program.
func folder(dir string) error {
	if dir == "" {
		return nil
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", dir)
	}
	return err
}

func executable(file string) error {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a directory", file)
	case info.Mode()&0o111 == 0:
		return fmt.Errorf("%s is not executable", file)
	}
	return nil
}
