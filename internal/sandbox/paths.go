package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// machineDirs are the directories with the programs of a machine. On many systems all but the first are links into it.
var machineDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

// machineFiles are files that programs need, and that hold no secrets.
var machineFiles = []string{"/etc/passwd", "/etc/group", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
	"/etc/alternatives", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/pki", "/etc/localtime",
	"/etc/mime.types", "/etc/magic", "/etc/protocols", "/etc/services", "/etc/fonts", "/nix/store"}

// networkFiles are what programs need to find hosts, with NetworkHost only.
var networkFiles = []string{"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/gai.conf"}

// homeTools are the places of compilers and interpreters in a home folder. None of them holds credentials: ~/.cargo,
// for instance, has some, and is not among them.
var homeTools = []string{".pyenv", ".nvm", ".rustup", ".cargo/bin", ".local/share/mise", ".local/share/uv",
	".local/bin",
	".asdf", ".volta", ".rbenv", ".sdkman/candidates", ".bun/bin", ".deno/bin", ".juliaup", ".ghcup", ".swiftly", "sdk",
	"go/bin", "miniconda3", "anaconda3", "miniforge3"}

// environment is an environment in the form of os.Environ.
type environment []string

// get returns the value of a variable; the last one counts.
func (e environment) get(name string) string {
	for _, kv := range slices.Backward(e) {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
}

// toolchains returns the directories outside of the machine's own ones that hold the programs on PATH: the known places
// of compilers in the home folder, and elsewhere each directory of PATH with the directory above, if it is called bin.
func toolchains(environ environment) (out []string) {
	home := environ.get("HOME")
	if home != "" && filepath.IsAbs(home) {
		for _, dir := range homeTools {
			out = append(out, filepath.Join(home, dir))
		}
	}
	for _, name := range []string{"GOROOT", "JAVA_HOME", "PYENV_ROOT", "RUSTUP_HOME", "NVM_DIR"} {
		if dir := environ.get(name); dir != "" {
			out = append(out, dir)
		}
	}
	for _, dir := range filepath.SplitList(environ.get("PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		real := realPath(dir)
		above := filepath.Dir(real)
		if filepath.Base(real) == "bin" && above != "/" && !isBelow(home, above) && !isBelow(above, home) {
			real = above
		}
		out = append(out, real)
	}
	return existing(out)
}

// existing returns the paths that exist, without symbolic links, without those of the machine's directories and without
// those in others of them. The root directory and what is above the home folder is left out.
func existing(paths []string) (out []string) {
	for _, p := range paths {
		p = realPath(p)
		_, err := os.Stat(p)
		if err != nil || slices.Contains([]string{"/", "/home", "/root", "/tmp", "/var", "/etc"}, p) {
			continue
		}
		out = append(out, p)
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return slices.DeleteFunc(slices.Clone(out), func(p string) bool {
		return slices.ContainsFunc(append([]string{"/usr"}, out...), func(dir string) bool {
			return p != dir && isBelow(p, dir)
		})
	})
}

// goModules returns the user's cache of Go modules, or "" if there is none.
func goModules(environ environment) string {
	dir := environ.get("GOMODCACHE")
	if dir == "" {
		root := filepath.SplitList(environ.get("GOPATH"))
		if len(root) == 0 || root[0] == "" {
			root = []string{filepath.Join(environ.get("HOME"), "go")}
		}
		dir = filepath.Join(root[0], "pkg/mod")
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() || !filepath.IsAbs(dir) {
		return ""
	}
	return realPath(dir)
}
