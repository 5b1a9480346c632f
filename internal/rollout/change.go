package rollout

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/everturn/everturn/workflows"
)

const (
	// gateWithin bounds the run of the workflow Ready on a version.
	gateWithin = 30 * time.Second
	// pollEvery is the pause between two requests for a state that the server does not report by an event.
	pollEvery = 500 * time.Millisecond
	// routedWithin bounds the wait until all task queues follow a change.
	routedWithin = 5 * time.Minute
	// enoughPolls is how many requests in a row must find that the queue of turns follows a change, if the server does
	// not report the end of the change. After two changes in quick succession on a busy machine, it sometimes does not.
	enoughPolls = 20
)

// Await waits until a worker of the version polls for turns. build is the version's build ID. If ctx ends first, the
// error is ErrRefused and says what was missing last.
func (d Deployment) Await(ctx context.Context, build string) error {
	for {
		s, err := d.Status(ctx)
		if err == nil {
			var v VersionState
			if v, err = s.version(build); err == nil && v.Workers > 0 {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			if err == nil { // the version exists, but has no worker
				err = fmt.Errorf("no worker of version %q polls task queue %s: start one", build, d.TaskQueue)
			}
			return fmt.Errorf("%w: %w", ErrRefused, err)
		case <-time.After(pollEvery):
		}
	}
}

// Gate checks that a version can run turns. It runs the workflow Ready on the version, which makes the checks of
// /readyz, and fails if workflow tasks of turns on the version fail repeatedly.
func (d Deployment) Gate(ctx context.Context, build string) error {
	problems, err := d.count(ctx, build, " AND TemporalReportedProblems IS NOT NULL")
	if err != nil {
		return err
	}
	if problems > 0 {
		return fmt.Errorf("%w: workflow tasks of %d turns on version %q fail again and again; see their pages in the Web UI",
			ErrRefused, problems, build)
	}
	ctx, cancel := context.WithTimeout(ctx, gateWithin)
	defer cancel()
	err = d.runReady(ctx, build)
	if ctx.Err() != nil {
		err = fmt.Errorf("its workers have not answered within %s", gateWithin)
	}
	if err != nil {
		return fmt.Errorf("%w: version %q is not ready for turns: %w", ErrRefused, build, err)
	}
	return nil
}

// runReady runs the workflow Ready on a version. It tries again while the server does not know the version, because a
// new version is registered some seconds after its first poll.
func (d Deployment) runReady(ctx context.Context, build string) error {
	for {
		run, err := d.Conn.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
			ID: "everturn-ready-" + build + "-" + rand.Text(), TaskQueue: d.TaskQueue, WorkflowExecutionTimeout: gateWithin,
			VersioningOverride: &client.PinnedVersioningOverride{
				Version: worker.WorkerDeploymentVersion{DeploymentName: d.Name, BuildID: build},
			},
		}, workflows.ReadyWorkflow)
		var unknown *serviceerror.FailedPrecondition
		switch {
		case err == nil:
			return run.Get(ctx, nil)
		case !errors.As(err, &unknown):
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pollEvery):
		}
	}
}

// Promote makes a version the current one, on which new turns begin. changed is false if it was the current one
// already. An error with changed means that the change is made, but that not all task queues follow it yet.
func (d Deployment) Promote(ctx context.Context, build string) (changed bool, err error) {
	s, err := d.readRouting(ctx)
	if err != nil {
		return false, err
	}
	if _, err := s.version(build); err != nil || s.Current == build {
		return false, err
	}
	_, err = d.Conn.WorkflowService().SetWorkerDeploymentCurrentVersion(ctx,
		&workflowservice.SetWorkerDeploymentCurrentVersionRequest{
			Namespace: d.Namespace, DeploymentName: d.Name, BuildId: build, ConflictToken: s.token,
		})
	if err != nil {
		return false, refusal("promoting", build, err)
	}
	return true, d.awaitRouted(ctx)
}

// Ramp makes a percentage of the sessions, always the same ones, begin their turns on the version build. A percentage
// of 0 ends the ramp; build may then be empty.
func (d Deployment) Ramp(ctx context.Context, build string, percent float32) error {
	s, err := d.readRouting(ctx)
	if err != nil {
		return err
	}
	if build != "" {
		if _, err := s.version(build); err != nil {
			return err
		}
		if build == s.Current {
			return fmt.Errorf("%w: version %q is the current one; ramp another", ErrRefused, build)
		}
	}
	if percent == 0 {
		build = ""
	}
	_, err = d.Conn.WorkflowService().SetWorkerDeploymentRampingVersion(ctx,
		&workflowservice.SetWorkerDeploymentRampingVersionRequest{
			Namespace: d.Namespace, DeploymentName: d.Name, BuildId: build, Percentage: percent, ConflictToken: s.token,
		})
	if err != nil {
		return refusal("ramping", build, err)
	}
	return d.awaitRouted(ctx)
}

// Rollback ends the ramp or, if there is none, promotes the version that was current before. It returns the build ID
// of the version that is current afterwards.
func (d Deployment) Rollback(ctx context.Context) (string, error) {
	s, err := d.Status(ctx)
	if err != nil {
		return "", err
	}
	if s.Ramping != "" {
		return s.Current, d.Ramp(ctx, "", 0)
	}
	build := s.previous()
	if build == "" {
		return "", fmt.Errorf("%w: no version of deployment %q was current before", ErrRefused, d.Name)
	}
	if v, err := s.version(build); err != nil || v.Workers == 0 {
		return "", errors.Join(err, fmt.Errorf("%w: no worker of version %q, the one before, polls: start one first",
			ErrRefused, build))
	}
	_, err = d.Promote(ctx, build)
	return build, err
}

// refusal returns the error for a change that the server refused. doing is the change, such as "promoting".
func refusal(doing, build string, err error) error {
	var precondition *serviceerror.FailedPrecondition
	if errors.As(err, &precondition) {
		return fmt.Errorf("%w: Temporal refuses version %q: %w", ErrRefused, build, err)
	}
	return fmt.Errorf("%s version %q: %w", doing, build, err)
}

// awaitRouted waits until all task queues follow the last change: until the server reports it, or until the queue of
// turns has followed it for a while.
func (d Deployment) awaitRouted(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, routedWithin)
	defer cancel()
	for polls := 0; polls < enoughPolls; {
		s, err := d.readRouting(ctx)
		switch {
		case err == nil && !s.Updating:
			return nil
		case err == nil && d.follows(ctx, s):
			polls++
		default:
			polls = 0
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the change is made, and not all task queues follow it after %s: see `everturn rollout status`",
				routedWithin)
		case <-time.After(pollEvery):
		}
	}
	return nil
}

// follows reports whether the queue of turns sends new turns to the current and ramping versions in s.
func (d Deployment) follows(ctx context.Context, s Status) bool {
	got, err := d.Conn.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
		Namespace: d.Namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: d.TaskQueue},
		TaskQueueType: enumspb.TASK_QUEUE_TYPE_WORKFLOW,
	})
	v := got.GetVersioningInfo()
	return err == nil && v.GetCurrentDeploymentVersion().GetBuildId() == s.Current &&
		v.GetRampingDeploymentVersion().GetBuildId() == s.Ramping && v.GetRampingVersionPercentage() == s.RampPercent
}

// Drain nudges the waiting turns and the deliveries of a version until no run stays on the version, or ctx ends.
// Whenever the number of runs changes, it calls report with that number and the number of those that it nudges.
func (d Deployment) Drain(ctx context.Context, build string, report func(left, waiting int64)) error {
	s, err := d.readRouting(ctx)
	if err != nil {
		return err
	}
	if _, err := s.version(build); err != nil {
		return err
	}
	if build == s.Current || build == s.Ramping && s.RampPercent > 0 {
		return fmt.Errorf("%w: turns begin on version %q: promote another one, or end its ramp, first", ErrRefused, build)
	}
	nudged, last := map[string]time.Time{}, int64(-1)
	for {
		left, err := d.count(ctx, build, "")
		waiting := int64(0)
		if err == nil {
			waiting, err = d.nudge(ctx, build, nudged)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		}
		if left != last {
			report(left, waiting)
		}
		if last = left; left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}

// nudgeAgain is the time after which a run that still waits on the version is nudged again. It may not have been
// waiting when the last nudge arrived, or its worker was away.
const nudgeAgain = 10 * time.Second

// nudge sends the nudge signal to the runs of a version that have nothing running: waiting turns, and deliveries.
// nudged is the time of each run's last nudge, by run ID; nudge updates it. It returns the number of these runs.
func (d Deployment) nudge(ctx context.Context, build string, nudged map[string]time.Time) (n int64, err error) {
	query := fmt.Sprintf("%s AND (EverturnState = 'waiting' OR WorkflowType = '%s')", d.runsQuery(build),
		workflows.DeliverWorkflow)
	for token := []byte(nil); ; {
		page, err := d.Conn.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: d.Namespace, Query: query, NextPageToken: token,
		})
		if err != nil {
			return n, fmt.Errorf("listing the turns of version %q: %w", build, err)
		}
		for _, e := range page.GetExecutions() {
			n++
			id, run := e.GetExecution().GetWorkflowId(), e.GetExecution().GetRunId()
			if time.Since(nudged[run]) < nudgeAgain {
				continue
			}
			nudged[run] = time.Now()
			err := d.Conn.SignalWorkflow(ctx, id, run, workflows.NudgeSignal, nil)
			var gone *serviceerror.NotFound
			if err != nil && !errors.As(err, &gone) {
				return n, fmt.Errorf("nudging %s: %w", id, err)
			}
		}
		if token = page.GetNextPageToken(); len(token) == 0 {
			return n, nil
		}
	}
}
