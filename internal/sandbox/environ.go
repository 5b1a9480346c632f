package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// inherited are the names of the variables that every command gets from this process.
var inherited = []string{"PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "GOROOT", "JAVA_HOME", "PYENV_ROOT",
	"PYENV_VERSION",
	"RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "NVM_DIR", "NVM_BIN"}

// fixed are variables that keep programs from waiting for a user and from drawing.
var fixed = []string{"TERM=dumb", "NO_COLOR=1", "PAGER=cat", "GIT_PAGER=cat", "GIT_TERMINAL_PROMPT=0",
	"GIT_EDITOR=true", "GIT_OPTIONAL_LOCKS=0", "GIT_AUTHOR_NAME=Everturn", "GIT_AUTHOR_EMAIL=everturn@localhost",
	"GIT_COMMITTER_NAME=Everturn", "GIT_COMMITTER_EMAIL=everturn@localhost", "GIT_CONFIG_NOSYSTEM=1", "GOTOOLCHAIN=local",
	"GOTELEMETRY=off", "GOFLAGS=-buildvcs=false", "PIP_DISABLE_PIP_VERSION_CHECK=1", "npm_config_update_notifier=false",
	"npm_config_fund=false", "npm_config_audit=false"}

// offline are variables that make package managers use their caches only, and say so at once instead of waiting for a
// network.
var offline = []string{"GOPROXY=off", "GOSUMDB=off", "npm_config_offline=true", "PIP_RETRIES=0", "PIP_NO_INDEX=1",
	"CARGO_NET_OFFLINE=true", "UV_OFFLINE=1"}

// proxyAddress is the address of the proxy in the network of a command with NetworkProxy. Nothing else can have it,
// because the network is the command's own.
const (
	proxyAddress = "127.0.0.1:3128"
	proxyURL     = "http://" + proxyAddress
	noProxyHosts = "localhost,127.0.0.1,::1"
)

// proxied are variables that make programs use the proxy.
var proxied = []string{"HTTP_PROXY=" + proxyURL, "http_proxy=" + proxyURL, "HTTPS_PROXY=" + proxyURL,
	"https_proxy=" + proxyURL, "ALL_PROXY=" + proxyURL, "all_proxy=" + proxyURL, "NO_PROXY=" + noProxyHosts,
	"no_proxy=" + noProxyHosts, "npm_config_proxy=" + proxyURL, "npm_config_https_proxy=" + proxyURL,
	"PIP_PROXY=" + proxyURL, "CARGO_HTTP_PROXY=" + proxyURL, "NODE_USE_ENV_PROXY=1"}

// variables returns the environment of a command. tmp is its temporary directory, cache that of its caches.
func (s *Sandbox) variables(tmp, cache string, network Network) []string {
	out := slices.Clone(fixed)
	switch network {
	case NetworkHost:
	case NetworkProxy:
		out = append(out, proxied...)
	default:
		out = append(out, offline...)
	}
	home := filepath.Join(tmp, "home")
	out = append(out, "HOME="+home, "TMPDIR="+tmp, "XDG_CONFIG_HOME="+home+"/.config",
		"XDG_DATA_HOME="+home+"/.local/share", "XDG_STATE_HOME="+home+"/.local/state", "XDG_CACHE_HOME="+cache,
		"GOCACHE="+cache+"/go-build", "GOPATH="+cache+"/go", "npm_config_cache="+cache+"/npm",
		"PIP_CACHE_DIR="+cache+"/pip", "UV_CACHE_DIR="+cache+"/uv", "CARGO_HOME="+cache+"/cargo")
	environ := environment(s.o.Environ)
	if s.modules != "" {
		switch network {
		case NetworkHost, NetworkProxy: // modules may be downloaded, so the cache is the repository's own
			out = append(out, "GOPROXY=file://"+s.modules+"/cache/download,https://proxy.golang.org,direct")
		default:
			out = append(out, "GOMODCACHE="+s.modules)
		}
	}
	userHome := environ.get("HOME")
	for variable, dir := range map[string]string{"RUSTUP_HOME": ".rustup", "PYENV_ROOT": ".pyenv", "NVM_DIR": ".nvm"} {
		dir = filepath.Join(userHome, dir)
		if _, err := os.Stat(dir); err == nil && userHome != "" {
			out = append(out, variable+"="+dir)
		}
	}
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		if slices.Contains(inherited, name) || slices.Contains(s.o.Variables, name) {
			out = append(out, kv)
		}
	}
	return lastOf(out)
}

// lastOf returns an environment in which each variable has its last value only, because programs disagree about which
// of several counts.
func lastOf(environ []string) (out []string) {
	last := map[string]int{}
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		if i, ok := last[name]; ok {
			out[i] = kv
			continue
		}
		last[name] = len(out)
		out = append(out, kv)
	}
	return out
}
