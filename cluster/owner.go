package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	namespacepb "go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

// Where a namespace says whose development server it is: the folder that keeps it, and the journal that the turns in it
// are written to. Servers of before name the folder only, with the journal in it.
const (
	folderKey  = "everturn.folder"
	journalKey = "everturn.journal"
)

// SetOwner notes in a development server's namespace which folder it belongs to and which journal its turns are kept in.
func SetOwner(ctx context.Context, c client.Client, namespace, folder, journal string) error {
	_, err := c.WorkflowService().UpdateNamespace(ctx, &workflowservice.UpdateNamespaceRequest{
		Namespace:  namespace,
		UpdateInfo: &namespacepb.UpdateNamespaceInfo{Data: map[string]string{folderKey: folder, journalKey: place(journal)}},
	})
	if err != nil {
		return fmt.Errorf("noting the owner of namespace %q: %w", namespace, err)
	}
	return nil
}

// CheckOwner refuses the development server of another journal, with an error that is config.ErrInvalid: whoever carries
// turns on there would write them where nobody looks for them. A server that is not a development server does not tell
// whose it is, nor does one that lets nobody look at its namespaces: nothing can be said against them.
func CheckOwner(ctx context.Context, c client.Client, address, namespace, journal string) error {
	got, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	var denied *serviceerror.PermissionDenied
	switch {
	case errors.As(err, &denied):
		return nil
	case err != nil:
		return fmt.Errorf("asking namespace %q whose it is: %w", namespace, err)
	}
	data, mine := got.GetNamespaceInfo().GetData(), place(journal)
	folder, theirs := data[folderKey], data[journalKey]
	switch {
	case folder == "", theirs == mine, theirs == "" && place(folder) == filepath.Dir(mine):
		return nil
	case theirs == "":
		theirs = "another journal"
	}
	return invalid("the Temporal on %s is the development server of %s, whose turns are kept in %s and not in %s: work in the folder that it is of, stop it, or give this folder ports of its own with [temporal] address and dev_ui_port in agent.toml",
		address, filepath.Dir(folder), theirs, mine)
}

// place is a file's one name, so that two ways to it are the same. It need not be there yet.
func place(file string) string {
	absolute, err := filepath.Abs(file)
	if err != nil {
		return file
	}
	if real, err := filepath.EvalSymlinks(absolute); err == nil {
		return real
	}
	folder, name := filepath.Split(absolute)
	if folder == absolute || name == "" {
		return absolute
	}
	return filepath.Join(place(folder[:len(folder)-1]), name)
}

// polledWithin is how long ago a worker that still runs has polled at most: a poll lasts a minute (the server's
// matching.longPollExpirationInterval), and the next one follows at once.
const polledWithin = 70 * time.Second

// Pollers counts the workers that carry turns of the task queue: one that was just stopped is counted for a minute more.
func Pollers(ctx context.Context, c client.Client, namespace, queue string) (int, error) {
	got, err := c.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
		Namespace: namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: queue}, TaskQueueType: enumspb.TASK_QUEUE_TYPE_WORKFLOW,
	})
	if err != nil {
		return 0, fmt.Errorf("asking who polls task queue %s: %w", queue, err)
	}
	n := 0
	for _, p := range got.GetPollers() {
		if time.Since(p.GetLastAccessTime().AsTime()) < polledWithin {
			n++
		}
	}
	return n, nil
}
