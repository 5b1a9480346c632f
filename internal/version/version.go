package version

import (
	"cmp"
	"runtime"
	"runtime/debug"
)

// stamp is the version of a release, set by its build: -ldflags "-X …/internal/version.stamp=v1.2.3".
var stamp string

// Unknown is the version of a program whose build did not record one.
const Unknown = "(devel)"

// Number returns the version of this program. If it is not a release, it is the version that go install or the
// version control system recorded, or Unknown.
func Number() string {
	v := stamp
	if info, ok := debug.ReadBuildInfo(); ok && v == "" {
		v = info.Main.Version
	}
	return cmp.Or(v, Unknown)
}

// String returns the version, Go's version and the platform.
func String() string {
	return Number() + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}
