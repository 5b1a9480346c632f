// Command generate writes snapshot.json from the npm package @earendil-works/pi-ai, whose data derive from models.dev.
// It downloads the package with npm. Run it with `go generate ./internal/models`, and commit what it writes.
package main
