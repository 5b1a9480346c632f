package temporalconn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	namespacepb "go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/types/known/durationpb"
)

// EnsureAttributes adds the search attributes that the namespace lacks and waits until all can be used. A worker
// calls it before it polls, because a workflow task that uses an unknown search attribute fails repeatedly.
func EnsureAttributes(
	ctx context.Context, c client.Client, namespace string, keys []temporal.SearchAttributeKey,
) error {
	op := c.OperatorService()
	have, err := op.ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return fmt.Errorf("listing search attributes of namespace %q: %w", namespace, err)
	}
	missing := map[string]enumspb.IndexedValueType{}
	for _, k := range keys {
		if t, ok := have.CustomAttributes[k.GetName()]; !ok {
			missing[k.GetName()] = k.GetValueType()
		} else if t != k.GetValueType() {
			return fmt.Errorf("search attribute %s of namespace %q is of type %s and must be %s: remove it with `temporal "+
				"operator search-attribute remove` or use another namespace", k.GetName(), namespace, t, k.GetValueType())
		}
	}
	if len(missing) == 0 {
		return awaitAttributes(ctx, c, namespace, keys)
	}
	_, err = op.AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: namespace, SearchAttributes: missing,
	})
	var exists *serviceerror.AlreadyExists
	if err != nil && !errors.As(err, &exists) { // AlreadyExists: another worker added them first
		return fmt.Errorf("adding search attributes to namespace %q (needs an operator's rights): %w", namespace, err)
	}
	return awaitAttributes(ctx, c, namespace, keys)
}

// awaitAttributes waits until the attributes can be queried or ctx ends. It polls, because the server reports no event,
// and takes any error of the query to mean "not yet". It must also wait if another process has added them, because
// servers cache namespaces.
func awaitAttributes(
	ctx context.Context, c client.Client, namespace string, keys []temporal.SearchAttributeKey,
) error {
	var unset []string
	for _, k := range keys {
		unset = append(unset, k.GetName()+" is null")
	}
	query := &workflowservice.CountWorkflowExecutionsRequest{Namespace: namespace, Query: strings.Join(unset, " AND ")}
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		if _, err := c.CountWorkflow(ctx, query); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for new search attributes of namespace %q: %w", namespace, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// EnsureRetention raises the time for which the namespace keeps closed workflows to at least d.
func EnsureRetention(ctx context.Context, c client.Client, namespace string, d time.Duration) error {
	ws := c.WorkflowService()
	got, err := ws.DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	if err != nil {
		return fmt.Errorf("describing namespace %q: %w", namespace, err)
	}
	if got.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration() >= d {
		return nil
	}
	_, err = ws.UpdateNamespace(ctx, &workflowservice.UpdateNamespaceRequest{
		Namespace: namespace,
		Config:    &namespacepb.NamespaceConfig{WorkflowExecutionRetentionTtl: durationpb.New(d)},
	})
	if err != nil {
		return fmt.Errorf("raising the retention of namespace %q: %w", namespace, err)
	}
	return nil
}

// ServerVersion returns the version that the server reports.
func ServerVersion(ctx context.Context, c client.Client) (string, error) {
	info, err := c.WorkflowService().GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{})
	if err != nil {
		return "", fmt.Errorf("asking Temporal for its version: %w", err)
	}
	return info.GetServerVersion(), nil
}
