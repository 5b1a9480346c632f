package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// tmpInside is the temporary directory as a command in a namespace sees it.
const tmpInside = "/tmp"

// namespace returns the command line of bubblewrap for a command, and what the command may do in its namespaces. Their
// file system begins empty; a later argument covers an earlier one. etc is a directory for generated files.
func (s *Sandbox) namespace(place Place, tmp, etc string, network Network) ([]string, confined, error) {
	cache := cacheOf(place, tmpInside)
	args := []string{s.bwrap, "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try",
		"--disable-userns", "--cap-drop", "ALL", "--new-session", "--die-with-parent", "--hostname", "sandbox"}
	if network != NetworkHost {
		args = append(args, "--unshare-net")
	}
	args = append(args, s.systems...)
	args = append(args, "--proc", "/proc", "--dev", "/dev", "--size", "67108864", "--perms", "1777", "--tmpfs", "/dev/shm",
		"--bind", tmp, tmpInside, "--symlink", tmpInside, "/var/tmp")
	files, err := generated(etc, network)
	if err != nil {
		return nil, confined{}, err
	}
	args = append(args, files...)
	for _, p := range s.read {
		args = append(args, "--ro-bind-try", p, p)
	}
	args = append(args, "--ro-bind", place.Root, place.Root)
	for _, dir := range place.Write {
		args = append(args, "--bind", dir, dir)
	}
	args = append(args, hiding(place.Hidden)...)
	if place.ForeignGit {
		clean, err := withoutCredentials(filepath.Join(place.Root, ".git/config"), etc)
		if err != nil {
			return nil, confined{}, err
		}
		args = append(args, clean...)
	}
	for _, b := range place.Binds {
		target := b.Target
		if target == "" {
			target = b.Source
		}
		args = append(args, "--ro-bind", b.Source, target)
	}
	if place.Cache != "" {
		if err := os.MkdirAll(cache, 0o700); err != nil {
			return nil, confined{}, fmt.Errorf("making the directory of the caches: %w", err)
		}
		args = append(args, "--bind", cache, cache)
	}
	for _, p := range place.Hidden { // only now, because the cache may be below one
		if info, err := os.Lstat(p); err == nil && info.IsDir() {
			args = append(args, "--remount-ro", p)
		}
	}
	if network == NetworkProxy {
		args = append(args, "--ro-bind-try", filepath.Join(etc, proxySocket), socketInside)
	}
	args = append(args, "--ro-bind", s.self, selfInside, "--remount-ro", "/dev", "--remount-ro", "/",
		"--chdir", place.Root, "--", selfInside)
	environ := append(s.variables(tmpInside, cache, network), "GIT_CONFIG_GLOBAL=/etc/gitconfig")
	return args, confined{Environ: environ, Read: []string{"/"},
		Write:    slices.Concat([]string{tmpInside, cache}, place.Write),
		HomeDirs: []string{tmpInside + "/home", cache}}, nil
}

// hiding returns the arguments that cover files and directories.
func hiding(hidden []string) (args []string) {
	for _, p := range hidden {
		info, err := os.Lstat(p)
		switch {
		case err != nil || info.Mode()&os.ModeSymlink != 0: // there is nothing, or a link, whose target is covered itself
		case info.IsDir():
			args = append(args, "--size", "1048576", "--perms", "0700", "--tmpfs", p)
		default:
			args = append(args, "--ro-bind", "/dev/null", p)
		}
	}
	return args
}

// generated returns the arguments for files of /etc that commands get instead of the machine's. etc is a directory for
// them.
func generated(etc string, network Network) (args []string, err error) {
	files := map[string]string{"gitconfig": gitSettings}
	if network != NetworkHost {
		files["hosts"] = "127.0.0.1 localhost sandbox\n::1 localhost\n"
		files["nsswitch.conf"] = "passwd: files\ngroup: files\nhosts: files\n"
	}
	for name, text := range files {
		source := filepath.Join(etc, name)
		if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
			return nil, fmt.Errorf("making a temporary file: %w", err)
		}
		args = append(args, "--ro-bind", source, "/etc/"+name)
	}
	return args, nil
}

// machine returns the arguments for the directories and files of the machine. Links, such as /bin on most systems, stay
// links.
func machine(network Network) (args []string) {
	for _, dir := range machineDirs {
		target, err := os.Readlink(dir)
		if err == nil {
			args = append(args, "--symlink", target, dir)
			continue
		}
		args = append(args, "--ro-bind-try", dir, dir)
	}
	for _, p := range machineFiles {
		args = append(args, "--ro-bind-try", p, p)
	}
	if network == NetworkHost {
		for _, p := range networkFiles {
			args = append(args, "--ro-bind-try", p, p)
		}
	}
	return args
}

// withoutCredentials returns the arguments that cover a configuration of git by a copy without credentials. dir is a
// directory for the copy. Without a configuration there are none.
func withoutCredentials(path, dir string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil { // there is no repository, or its directory is elsewhere
		return nil, nil //nolint:nilerr // see above
	}
	source := filepath.Join(dir, "repository-config")
	if err := os.WriteFile(source, cleanGitConfig(text), 0o644); err != nil {
		return nil, fmt.Errorf("making a temporary file: %w", err)
	}
	return []string{"--ro-bind", source, path}, nil
}
