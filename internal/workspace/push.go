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

// remoteName is the name that git commands have for a Remote. The address, which may contain a password, is not among
// their arguments, which other users of the machine can read.
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
	return "", errors.New("the address of a remote repository begins with https://, ssh:// or file://, or is user@host:path " +
		"or the whole path of a folder")
}

// CheckRemote returns an error if git must not push to this address.
func CheckRemote(address string) error {
	_, err := remoteProtocol(address)
	return err
}

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

// withoutPassword removes the password of an address from a message of git.
func withoutPassword(message, address string) string {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return message
	}
	if password, ok := u.User.Password(); ok && password != "" {
		message = strings.ReplaceAll(message, password, "…")
	}
	return strings.ReplaceAll(message, u.User.String(), "…")
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

// push sets the reference ref of a remote repository to a commit of the store, with all objects that it lacks. The
// reference must be at the commit old there; "" means that it must not exist. Git runs no hook of this machine.
func (s *Store) push(ctx context.Context, address, ref, id, old string) error {
	_, err := s.remote(ctx, address, "push", "--quiet", "--no-verify", "--no-recurse-submodules", "--no-signed",
		"--force-with-lease="+ref+":"+old, remoteName, id+":"+ref)
	if err != nil {
		return fmt.Errorf("pushing to %s: %w", strings.TrimPrefix(ref, "refs/heads/"), err)
	}
	return nil
}
