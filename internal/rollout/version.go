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

// VersionOf returns the version of a worker with this configuration and environment if the calling program runs it:
// TEMPORAL_WORKER_BUILD_ID, which Temporal's Worker Controller sets, or else the version of the program. The error is
// config.ErrInvalid.
func VersionOf(w config.Worker, environ []string) (Version, error) {
	if w.Deployment == "" {
		return Version{}, nil
	}
	build, _ := temporalconn.Environ(environ).LookupEnv("TEMPORAL_WORKER_BUILD_ID")
	v := Version{w.Deployment, cmp.Or(build, version.Number())}
	if v.BuildID == version.Unknown {
		return v, temporalconn.WithKind(config.ErrInvalid, fmt.Errorf("TEMPORAL_WORKER_BUILD_ID is not set, and this "+
			"program was built without a version: set it to a name that no other version of deployment %q has", w.Deployment))
	}
	return v, nil
}

// String returns the version in the form of Temporal's search attributes, "deployment:build ID".
func (v Version) String() string { return v.Deployment + ":" + v.BuildID }
