package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
)

// releaseVariable makes TestReleases build with all flags of a release, which compiles everything again: minutes.
const releaseVariable = "EVERTURN_RELEASE"

// TestReleases builds the programs with the flags of the Dockerfile, and checks that the image and .goreleaser.yaml
// agree with each other and with the code.
func TestReleases(t *testing.T) {
	image, release := read(t, "Dockerfile"), read(t, ".goreleaser.yaml")
	built := t.TempDir()
	builds := regexp.MustCompile(`(?m)^RUN go build -trimpath -ldflags "(.*)" -o /out/(\S+) (\S+)$`).
		FindAllStringSubmatch(image, -1)
	require.Len(t, builds, 2)
	for _, b := range builds {
		flags, name, pkg := b[1], b[2], b[3]
		assert.Regexp(t, `(?s)main: `+pkg+`\s+binary: `+name+`\n`, release)
		assert.Contains(t, release, `["`+strings.ReplaceAll(flags, "${VERSION}", "v{{ .Version }}")+`"]`)
		program := filepath.Join(built, name)
		requireBuild(t, program, pkg, strings.ReplaceAll(flags, "${VERSION}", "v1.2.3"))
		output, err := exec.CommandContext(t.Context(), program, "--version").Output()
		require.NoError(t, err)
		assert.Contains(t, string(output), "v1.2.3 go")
	}

	assert.Contains(t, image, "\nENV CGO_ENABLED=0\n")
	assert.Contains(t, release, "env: [CGO_ENABLED=0]\n    flags: [-trimpath]\n")
	assert.Regexp(t, `\nUSER [1-9]\d*:[1-9]\d*\n`, image, "the container does not run as root")
	assert.NotRegexp(t, `(?m)^EXPOSE`, image, "a worker listens on no port")
	entry := regexp.MustCompile(`\nENTRYPOINT \["/usr/local/bin/(\S+)"\]\n`).FindStringSubmatch(image)
	require.NotEmpty(t, entry)
	assert.FileExists(t, filepath.Join(built, entry[1]))
	requireEnvironment(t, image)
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", path))
	require.NoError(t, err)
	return string(b)
}

// requireBuild builds a program. With releaseVariable it is the program of a release, which must need no dynamic
// linker: the image has none.
func requireBuild(t *testing.T, program, pkg, ldflags string) {
	t.Helper()
	args, environ := []string{"build", "-ldflags", ldflags, "-o", program, pkg}, os.Environ()
	whole := os.Getenv(releaseVariable) != ""
	if whole {
		args, environ = slices.Insert(args, 1, "-trimpath"), append(environ, "CGO_ENABLED=0")
	}
	build := exec.CommandContext(t.Context(), "go", args...)
	build.Dir, build.Env = "..", environ
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	if !whole || runtime.GOOS != "linux" {
		t.Logf("%s is not checked for being static: set %s=1 on Linux", pkg, releaseVariable)
		return
	}
	f, err := elf.Open(program)
	require.NoError(t, err)
	defer f.Close()
	for _, p := range f.Progs {
		assert.NotEqual(t, elf.PT_INTERP, p.Type, program)
	}
}

// requireEnvironment checks that the image's variables are settings, and that the journal is in a volume that the
// image's user owns.
func requireEnvironment(t *testing.T, image string) {
	t.Helper()
	var environ []string
	for _, m := range regexp.MustCompile(`(?m)^ENV (EVERTURN_\S+)$`).FindAllStringSubmatch(image, -1) {
		environ = append(environ, m[1])
	}
	t.Chdir(t.TempDir())
	loaded, err := config.Load(config.LoadOptions{Environ: environ})
	require.NoError(t, err)
	dir := filepath.Dir(loaded.Config.Journal.Path)
	user := regexp.MustCompile(`\nUSER (\S+)\n`).FindStringSubmatch(image)[1]
	for _, line := range []string{"VOLUME " + dir, "COPY --from=build --chown=" + user + " " + dir + " " + dir} {
		assert.Contains(t, image, "\n"+line+"\n")
	}
}
