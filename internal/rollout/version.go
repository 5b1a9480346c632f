package rollout

import (
	"cmp"
	"fmt"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/internal/version"
)

// Version is a version of a worker. Both fields are empty for a worker without a deployment.
type Version struct{ Deployment, BuildID string }

// VersionOf returns the version of a worker with this configuration if the calling program runs it. The error is
// config.ErrInvalid.
func VersionOf(w config.Worker) (Version, error) {
	if w.Deployment == "" {
		return Version{}, nil
	}
	v := Version{w.Deployment, cmp.Or(w.BuildID, version.Number())}
	if v.BuildID == version.Unknown {
		return v, temporalconn.WithKind(config.ErrInvalid, fmt.Errorf("worker.build_id is not set, and this program was "+
			"built without a version: set it to a name that no other version of deployment %q has", w.Deployment))
	}
	return v, nil
}

// String returns the version in the form of Temporal's search attributes, "deployment:build ID".
func (v Version) String() string { return v.Deployment + ":" + v.BuildID }
