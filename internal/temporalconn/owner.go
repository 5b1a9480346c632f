package temporalconn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	namespacepb "go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

// The keys in a namespace's data for the owner of a development server: the folder to which the server belongs, and the
// journal to which its turns are written.
const (
	folderKey  = "everturn.folder"
	journalKey = "everturn.journal"
)

// SetOwner records in a development server's namespace the folder to which the server belongs and the journal to
// which its turns are written.
func SetOwner(ctx context.Context, c client.Client, namespace, folder, journal string) error {
	data := map[string]string{folderKey: folder, journalKey: canonicalPath(journal)}
	_, err := c.WorkflowService().UpdateNamespace(ctx, &workflowservice.UpdateNamespaceRequest{
		Namespace: namespace, UpdateInfo: &namespacepb.UpdateNamespaceInfo{Data: data},
	})
	if err != nil {
		return fmt.Errorf("recording the owner of namespace %q: %w", namespace, err)
	}
	return nil
}

// CheckOwner returns an error that is config.ErrInvalid if the development server belongs to another journal: a
// worker there would write turns to a journal that this process does not read. CheckOwner accepts a server without a
// recorded owner, which is not a development server, and a server on which the caller may not describe namespaces.
func CheckOwner(ctx context.Context, c client.Client, address, namespace, journal string) error {
	got, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	var denied *serviceerror.PermissionDenied
	switch {
	case errors.As(err, &denied):
		return nil
	case err != nil:
		return fmt.Errorf("reading the owner of namespace %q: %w", namespace, err)
	}
	data, mine := got.GetNamespaceInfo().GetData(), canonicalPath(journal)
	theirs := data[journalKey]
	if theirs == "" || theirs == mine {
		return nil
	}
	return invalid("the Temporal on %s is the development server of %s, whose turns are kept in %s and not in %s: work in "+
		"that folder, stop the server, or give this folder ports of its own with [temporal] address in "+
		"agent.toml (--dev chooses free ports if address is not set)",
		address, filepath.Dir(data[folderKey]), theirs, mine)
}

// canonicalPath returns the absolute path of a file with all links followed, so that different paths of the same file
// compare equal. The file need not exist.
func canonicalPath(file string) string {
	absolute, err := filepath.Abs(file)
	if err != nil {
		return file
	}
	if real, err := filepath.EvalSymlinks(absolute); err == nil {
		return real
	}
	// The file does not exist: follow the links in the path of its folder.
	folder, name := filepath.Split(absolute)
	if folder == absolute || name == "" {
		return absolute
	}
	return filepath.Join(canonicalPath(folder[:len(folder)-1]), name)
}

// hasEnded reports whether a worker's identity, pid@host, names a process of this machine that has ended. It is false
// for processes of other machines and for identities that the operator chose, because their state is unknown.
func hasEnded(identity string) bool {
	pid, host, _ := strings.Cut(identity, "@")
	here, err := os.Hostname()
	if err != nil || host != here {
		return false
	}
	n, err := strconv.Atoi(pid)
	return err == nil && n > 0 && errors.Is(syscall.Kill(n, 0), syscall.ESRCH)
}

// A worker's identity ends with its journal's ID and the hash of its settings, after these separators.
const (
	journalSeparator  = " journal:"
	settingsSeparator = " settings:"
)

// WithMarks returns a worker's identity with the ID of its journal and the hash of its settings appended. Pollers
// reads both from it.
func WithMarks(identity, journal, settings string) string {
	return identity + journalSeparator + journal + settingsSeparator + settings
}

// WithOtherJournal returns the pollers whose journal is known and is not the one with this ID. The ID is empty if
// there is no journal yet.
func WithOtherJournal(pollers []Poller, journal string) (others []Poller) {
	for _, p := range pollers {
		if p.Journal != "" && p.Journal != journal {
			others = append(others, p)
		}
	}
	return others
}

// WithOtherSettings returns the pollers whose settings are known and do not have this hash.
func WithOtherSettings(pollers []Poller, settings string) (others []Poller) {
	for _, p := range pollers {
		if p.Settings != "" && p.Settings != settings {
			others = append(others, p)
		}
	}
	return others
}
