package config

import (
	"time"

	"github.com/everturn/everturn/internal/sandbox"
)

// Workspace says where file tools and commands act.
type Workspace struct {
	// "folder": in the folder runtime.workspace, which all sessions share. "tree": each session has a directory of its
	// own with the files of the git repository runtime.workspace, and a commit for each call that changes files. The
	// repository stays as it is until the user merges; the tools that change files are then always offered. It needs git
	// 2.38 or newer.
	Mode WorkspaceMode `toml:"mode" default:"folder" enum:"folder,tree"`
	// A command that prepares each new tree, before the first call that changes files or runs a command there. It is
	// isolated as commands are, with the limits of [sandbox] and shell.timeout. If it fails, the model is told and goes on.
	Setup string `toml:"setup" example:"npm ci" maxbytes:"10000"`
	// What that command reaches by network: see sandbox.network, which applies if this is empty. In a tree that begins with
	// changes of an agent, which could have changed what the command runs, sandbox.network always applies.
	SetupNetwork sandbox.Network `toml:"setup_network" enum:",none,loopback,proxy,host" example:"host"`
	// How long a tree that is not used is kept: its directory, and the commits that were merged or dropped. Commits that
	// are nowhere else always stay. The directory of a tree without such commits goes after a day.
	Keep time.Duration `toml:"keep" default:"720h" min:"1h" zero:"to keep all trees"`
	// The address of a git repository to which each commit of a session is pushed before its call is done, so that another
	// machine can continue with it: it gets references below refs/everturn, and no branch. It has the forms of publish.remote.
	Remote Secret `toml:"remote" shown:"written" example:"git@github.com:ann/page.git"`
	// How long all workers of a machine must be away before another machine takes over the trees of its sessions.
	TakeoverAfter time.Duration `toml:"takeover_after" default:"1m" min:"15s"`
	// Where `everturn canvas publish` and the tool canvas_publish push what a session has changed.
	Publish Publish `toml:"publish"`
}

// Publish says where canvases are published.
type Publish struct {
	// The address of a git repository: https://, ssh://, user@host:path or the whole path of a folder. Without it, nothing
	// is published. Git uses no configuration of the user; ssh uses the user's keys and known hosts. A token is best in the
	// environment: "https://git:${GITHUB_TOKEN}@github.com/ann/page.git".
	Remote Secret `toml:"remote" shown:"written" example:"git@github.com:ann/page.git"`
	// The branch there; {session} stands for the session's ID and must be part of it.
	Branch string `toml:"branch" default:"everturn/{session}" maxbytes:"200"`
	// A command, without a shell, that opens a pull request after each push. It runs in runtime.workspace as the worker's
	// user, not isolated. {branch}, {commit} and {title} stand for those of the push.
	PullRequest []string `toml:"pull_request" example:"gh,pr,create,--fill,--head,{branch}"`
	// Names of environment variables that this command gets, besides PATH, HOME and the locale.
	EnvAllow []string `toml:"env_allow" example:"GH_TOKEN"`
}

// WorkspaceMode is the kind of directory in which file tools and commands act.
type WorkspaceMode string

// The values of WorkspaceMode.
const (
	WorkspaceFolder WorkspaceMode = "folder"
	WorkspaceTree   WorkspaceMode = "tree"
)
