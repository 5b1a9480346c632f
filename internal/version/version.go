package version

import (
	"runtime"
	"runtime/debug"
)

// stamp is the version of a release, set by its build: -ldflags "-X …/internal/version.stamp=v1.2.3".
var stamp string

// String returns the version, Go's version and the platform. A program that is not a release has the version that go
// install or the version control gives it.
func String() string {
	v := stamp
	if info, ok := debug.ReadBuildInfo(); ok && v == "" {
		v = info.Main.Version
	}
	if v == "" {
		v = "(devel)"
	}
	return v + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}
