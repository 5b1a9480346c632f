package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	deploymentpb "go.temporal.io/api/deployment/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/temporalconn"
)

// ErrRefused means that a requested change of a version is not possible. Nothing has changed.
var ErrRefused = errors.New("nothing has changed")

// Deployment is a Worker Deployment in a namespace of a Temporal server.
type Deployment struct {
	Conn      temporalconn.Conn
	Namespace string
	Name      string
	TaskQueue string // of the turns
}

// Status is the state of a deployment.
type Status struct {
	Deployment string `json:"deployment"`
	Current    string `json:"current,omitempty"` // the build ID on which new turns begin; empty: workers without a version
	Ramping    string `json:"ramping,omitempty"` // the build ID that gets RampPercent of the sessions
	// RampPercent is from 0 to 100.
	RampPercent float32 `json:"ramp_percent,omitempty"`
	// Updating means that not all task queues follow the latest change yet.
	Updating bool           `json:"updating,omitempty"`
	Versions []VersionState `json:"versions"` // the newest first

	token []byte // Temporal's conflict token: a change with it fails if the deployment has changed meanwhile
}

// VersionState is one version of a deployment.
type VersionState struct {
	BuildID string `json:"build_id"`
	// State is current, ramping, draining, drained, inactive or created. The server updates it every few minutes.
	State   string `json:"state"`
	Workers int    `json:"workers"` // the number of workers that poll for turns
	Turns   int64  `json:"turns"`   // the number of runs on this version, deliveries included
	Waiting int64  `json:"waiting"` // the number of turns among them that wait for decisions
	// Problems is the number of runs whose workflow tasks fail repeatedly.
	Problems  int64     `json:"problems"`
	CreatedAt time.Time `json:"created_at"`

	lastCurrent time.Time
}

// Status reads the state of the deployment from Temporal. The error is config.ErrInvalid if there is no such
// deployment.
func (d Deployment) Status(ctx context.Context) (Status, error) {
	s, err := d.readRouting(ctx)
	if err != nil {
		return s, err
	}
	pollers, err := temporalconn.Pollers(ctx, d.Conn, d.TaskQueue)
	if err != nil {
		return s, err
	}
	for i := range s.Versions {
		v := &s.Versions[i]
		for _, p := range pollers {
			if p.Deployment == d.Name && p.BuildID == v.BuildID {
				v.Workers++
			}
		}
		for n, filter := range map[*int64]string{
			&v.Turns: "", &v.Waiting: " AND EverturnState = 'waiting'", &v.Problems: " AND TemporalReportedProblems IS NOT NULL",
		} {
			if *n, err = d.count(ctx, v.BuildID, filter); err != nil {
				return s, err
			}
		}
	}
	return s, nil
}

// readRouting reads the deployment's versions and which of them are current and ramping, without the numbers of
// workers and runs.
func (d Deployment) readRouting(ctx context.Context) (Status, error) {
	got, err := d.Conn.WorkflowService().DescribeWorkerDeployment(ctx, &workflowservice.DescribeWorkerDeploymentRequest{
		Namespace: d.Namespace, DeploymentName: d.Name,
	})
	var unknown *serviceerror.NotFound
	var old *serviceerror.Unimplemented
	switch {
	case errors.As(err, &unknown):
		return Status{}, temporalconn.WithKind(config.ErrInvalid, fmt.Errorf("no Worker Deployment %q in "+
			"namespace %q: start a worker with [worker] deployment = %q", d.Name, d.Namespace, d.Name))
	case errors.As(err, &old):
		return Status{}, temporalconn.WithKind(config.ErrInvalid, errors.New(
			"this Temporal server has no Worker Deployments; they need 1.28, and moving turns needs 1.32"))
	case err != nil:
		return Status{}, fmt.Errorf("reading Worker Deployment %q: %w", d.Name, err)
	}
	info := got.GetWorkerDeploymentInfo()
	r := info.GetRoutingConfig()
	s := Status{
		Deployment: d.Name, Current: r.GetCurrentDeploymentVersion().GetBuildId(), token: got.GetConflictToken(),
		Ramping: r.GetRampingDeploymentVersion().GetBuildId(), RampPercent: r.GetRampingVersionPercentage(),
		Updating: info.GetRoutingConfigUpdateState() == enumspb.ROUTING_CONFIG_UPDATE_STATE_IN_PROGRESS,
		Versions: []VersionState{},
	}
	for _, v := range info.GetVersionSummaries() {
		s.Versions = append(s.Versions, VersionState{
			BuildID: v.GetDeploymentVersion().GetBuildId(), State: stateOf(v), CreatedAt: v.GetCreateTime().AsTime(),
			lastCurrent: v.GetLastCurrentTime().AsTime(),
		})
	}
	slices.SortFunc(s.Versions, func(a, b VersionState) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return s, nil
}

// stateOf returns VersionState.State for the server's description of a version.
func stateOf(v *deploymentpb.WorkerDeploymentInfo_WorkerDeploymentVersionSummary) string {
	return strings.ToLower(v.GetStatus().String())
}

// version returns the version with this build ID. The error is config.ErrInvalid if there is none.
func (s Status) version(build string) (VersionState, error) {
	i := slices.IndexFunc(s.Versions, func(v VersionState) bool { return v.BuildID == build })
	if i >= 0 {
		return s.Versions[i], nil
	}
	known := make([]string, len(s.Versions))
	for i, v := range s.Versions {
		known[i] = v.BuildID
	}
	return VersionState{}, temporalconn.WithKind(config.ErrInvalid, fmt.Errorf(
		"deployment %q has no version %q: start a worker of it; the versions are %s", s.Deployment, build,
		strings.Join(known, ", ")))
}

// previous returns the build ID of the version that was current last before the current one, or "" if there is none.
func (s Status) previous() string {
	var latest VersionState
	for _, v := range s.Versions {
		// A version that was never current has the time 0.
		if v.BuildID != s.Current && v.lastCurrent.Unix() > 0 && v.lastCurrent.After(latest.lastCurrent) {
			latest = v
		}
	}
	return latest.BuildID
}

// runsQuery returns the visibility query for the running workflows of a version.
func (d Deployment) runsQuery(build string) string {
	return fmt.Sprintf("TemporalWorkerDeploymentVersion = '%s' AND ExecutionStatus = 'Running'",
		strings.ReplaceAll(Version{d.Name, build}.String(), "'", "''"))
}

// count returns the number of running workflows of a version. filter is appended to the query and begins with AND; it
// may be empty.
func (d Deployment) count(ctx context.Context, build, filter string) (int64, error) {
	got, err := d.Conn.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Namespace: d.Namespace, Query: d.runsQuery(build) + filter,
	})
	if err != nil {
		return 0, fmt.Errorf("counting the turns of version %q: %w", build, err)
	}
	return got.GetCount(), nil
}
