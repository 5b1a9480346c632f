package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// pushTimeout bounds one exchange with a remote repository.
const pushTimeout = 5 * time.Minute

// remoteName is the name that git commands have for a remote repository. The address, which may contain a password, is
// not among their arguments, which other users of the machine can read.
const remoteName = "everturn"

// scpAddress matches an address of ssh without a scheme, such as git@example.com:ann/page.git.
var scpAddress = regexp.MustCompile(`^[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:[^:]+$`)

// remoteProtocol returns the protocol of the address of a remote repository, or an error if git must not use it.
func remoteProtocol(address string) (string, error) {
	if filepath.IsAbs(address) {
		return "file", nil
	}
	if scpAddress.MatchString(address) {
		return "ssh", nil
	}
	u, err := url.Parse(address)
	if err == nil && slices.Contains([]string{"https", "ssh", "file"}, u.Scheme) && !strings.HasPrefix(u.Host, "-") {
		return u.Scheme, nil
	}
	return "", errors.New("the address of a remote repository begins with https://, ssh:// or file://, or is " +
		"user@host:path " +
		"or the whole path of a folder")
}

// CheckRemote returns an error if git must not push to this address.
func CheckRemote(address string) error {
	_, err := remoteProtocol(address)
	return err
}

// RemoteError means that a remote repository does not have a commit.
type RemoteError struct {
	Address string // without a password
	Commit  string // empty if a branch was to be deleted
	Refused bool   // the repository answers and refuses the commit
	Err     error
}

func (e *RemoteError) Error() string {
	if e.Refused {
		return fmt.Sprintf("the remote repository %s refuses commit %.10s: %v", e.Address, e.Commit, e.Err)
	}
	return fmt.Sprintf("commit %.10s is not in the remote repository %s: %v; check the network, the address and the "+
		"credentials under [workspace] in agent.toml", e.Commit, e.Address, e.Err)
}

func (e *RemoteError) Unwrap() error { return e.Err }

// remote runs a git command in the store that reaches the repository at an address, which is the argument remoteName of
// the command. Git uses no settings of the user; ssh uses the keys and the known hosts of the user, and asks nothing.
func (s *Store) remote(ctx context.Context, address string, args ...string) (string, error) {
	protocol, err := remoteProtocol(address)
	if err != nil {
		return "", err
	}
	c := gitCommand{dir: s.dir, timeout: pushTimeout, environ: []string{
		"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=remote." + remoteName + ".url", "GIT_CONFIG_VALUE_0=" + address,
		"GIT_CONFIG_KEY_1=protocol." + protocol + ".allow", "GIT_CONFIG_VALUE_1=always",
		"GIT_SSH_COMMAND=ssh -F none -o BatchMode=yes", "GIT_ASKPASS=true",
	}}
	out := &limitedBuffer{max: maxMessage}
	err = c.run(ctx, bytes.NewReader(nil), out, append([]string{"--git-dir=" + s.store()}, args...)...)
	var failed *gitError
	if errors.As(err, &failed) {
		failed.message = withoutPassword(failed.message, address)
	}
	return out.kept.String(), err
}

// withoutPassword removes the password of an address from a text, and the name of its user, which may be a token.
func withoutPassword(text, address string) string {
	u, err := url.Parse(address)
	if err != nil || u.User == nil || u.Scheme == "ssh" {
		return text
	}
	if password, ok := u.User.Password(); ok && password != "" {
		text = strings.ReplaceAll(text, password, "…")
	}
	return strings.ReplaceAll(text, u.User.String(), "…")
}

// remoteHead returns the commit of a branch of a remote repository, or "" if there is no such branch.
func (s *Store) remoteHead(ctx context.Context, address, ref string) (string, error) {
	out, err := s.remote(ctx, address, "ls-remote", remoteName, ref)
	for line := range strings.Lines(out) {
		if id, name, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok && name == ref && objectID.MatchString(id) {
			return id, err
		}
	}
	return "", err
}

// push sets the reference ref of a remote repository to a commit of the store, with all objects that it lacks. An empty
// id deletes it. The reference must be at the commit old there; "" means that it must not exist. Further refspecs are
// pushed with it, all or none. Git runs no hook of this machine, also if the repository is a folder of it. The error may
// be a *RemoteError.
func (s *Store) push(ctx context.Context, address, ref, id, old string, further ...string) error {
	args := []string{"push", "--porcelain", "--no-verify", "--no-recurse-submodules", "--no-signed",
		"--force-with-lease=" + ref + ":" + old}
	if protocol, _ := remoteProtocol(address); protocol == "file" {
		args = append(args, "--receive-pack=git -c core.hooksPath=/dev/null receive-pack")
	}
	if len(further) > 0 {
		args = append(args, "--atomic")
	}
	out, err := s.remote(ctx, address, append(append(args, remoteName, id+":"+ref), further...)...)
	if err == nil {
		return nil
	}
	failed := &RemoteError{Address: withoutPassword(address, address), Commit: id, Err: err}
	for line := range strings.Lines(out) { // flag, references and summary, divided by tabs
		if reason, rejected := strings.CutPrefix(line, "!\t"); rejected {
			_, reason, _ = strings.Cut(strings.TrimSpace(reason), "\t")
			failed.Refused, failed.Err = true, errors.New(oneLine(reason, 200))
		}
	}
	return failed
}
