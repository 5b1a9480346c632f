package config

import (
	"time"

	"github.com/everturn/everturn/internal/sandbox"
)

// Shell says what the commands of the tool shell may do.
type Shell struct {
	// Offer the tool. Its calls are of high risk.
	Enabled bool `toml:"enabled"`
	// Directories of the workspace that commands may write.
	Write []string `toml:"write" example:"build,testdata"`
	// Names of environment variables that commands get, besides PATH, the locale and those that compilers need.
	EnvAllow []string `toml:"env_allow" example:"GOFLAGS"`
	// Timeout of a command.
	Timeout time.Duration `toml:"timeout" default:"10m" min:"1s"`
}

// Sandbox says how commands are isolated.
type Sandbox struct {
	// "namespace": bubblewrap (which must be installed), Landlock and a filter of system calls. "landlock": the last two
	// alone, on Linux 6.12 or newer; commands cannot change modes, owners and times of files, and have no network. "none":
	// nothing; every command needs an approval, whatever the policy says.
	Level sandbox.Level `toml:"level" default:"namespace" enum:"namespace,landlock,none"`
	// What commands reach by network. "none": nothing. "loopback": a loopback interface of their own. "proxy": that, and by
	// an HTTP proxy the hosts of hosts; only with level "namespace", with "landlock" nothing. "host": everything that the
	// machine reaches, this worker's services on it too; every command needs an approval.
	Network sandbox.Network `toml:"network" default:"loopback" enum:"none,loopback,proxy,host"`
	// Patterns of the hosts that commands reach with network "proxy", at the ports 80 and 443 or at a port of the pattern.
	// Their addresses must be public.
	Hosts []string `toml:"hosts" maxbytes:"300" example:"proxy.golang.org,*.pythonhosted.org,git.example.org:8443"`
	// Files and directories outside of the workspace that commands may read, besides /usr and the compilers on PATH.
	Read []string `toml:"read" example:"/opt/android-sdk"`
	// Maximum number of processes of a command.
	Processes int `toml:"processes" default:"512" min:"16"`
	// Maximum memory of a command, of all of its processes together, in MiB.
	MemoryMiB int `toml:"memory_mib" default:"8192" min:"64"`
}
