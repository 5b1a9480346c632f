package trust_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/trust"
)

// user is a user with a state directory, and a folder.
type user struct {
	t       *testing.T
	environ []string
	store   trust.Store
	dir     string
}

func newUser(t *testing.T) user {
	t.Helper()
	u := user{t: t, environ: []string{"PATH=/usr/bin", "XDG_STATE_HOME=" + t.TempDir(), "TOOLS=tools"}, dir: t.TempDir()}
	var err error
	u.store, err = trust.Open(u.environ)
	require.NoError(t, err)
	return u
}

func (u user) write(name, content string) {
	u.t.Helper()
	path := filepath.Join(u.dir, name)
	require.NoError(u.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(u.t, os.WriteFile(path, []byte(content), 0o700))
}

func (u user) look(dir string) trust.Folder {
	u.t.Helper()
	f, err := trust.Look(dir, u.environ)
	require.NoError(u.t, err)
	return f
}

func (u user) add(dir string) {
	u.t.Helper()
	require.NoError(u.t, u.store.Add(u.look(dir), time.Now()))
}

func (u user) trusts(dir string) bool {
	u.t.Helper()
	trusted, err := u.store.Trusts(u.look(dir))
	require.NoError(u.t, err)
	return trusted
}

func (u user) changes() []string {
	u.t.Helper()
	r, err := u.store.Find(u.look(u.dir).Root)
	require.NoError(u.t, err)
	require.NotNil(u.t, r)
	changes, err := u.look(u.dir).Changes(*r)
	require.NoError(u.t, err)
	return changes
}

const serving = `[[mcp.servers]]
id = "mine"
command = "python3"
args = ["-u", "tools/server.py"]
`

func TestAFolderIsTrustedForItsContent(t *testing.T) {
	u := newUser(t)
	u.write("agent.toml", serving)
	u.write("tools/server.py", "1")
	assert.False(t, u.trusts(u.dir))
	u.add(u.dir)
	assert.True(t, u.trusts(u.dir))

	u.write("agent.toml", strings.Replace(serving, `"-u", `, "", 1))
	assert.False(t, u.trusts(u.dir))
	assert.Equal(t, []string{`- mcp.servers[mine].args = ['-u', 'tools/server.py']`,
		`+ mcp.servers[mine].args = ['tools/server.py']`}, u.changes())
	u.write("agent.toml", serving+"# by the way\n")
	assert.False(t, u.trusts(u.dir))
	assert.Equal(t, []string{"agent.toml: a comment or the order"}, u.changes())
	u.write("agent.toml", serving)
	assert.True(t, u.trusts(u.dir), "it is again what was trusted")

	u.write("tools/server.py", "2")
	assert.False(t, u.trusts(u.dir))
	assert.Equal(t, []string{"changed file tools/server.py"}, u.changes())
	require.NoError(t, os.Remove(filepath.Join(u.dir, "tools/server.py")))
	assert.Equal(t, []string{"removed file tools/server.py"}, u.changes())
	u.add(u.dir)
	u.write("tools/server.py", "1")
	assert.Equal(t, []string{"new file tools/server.py"}, u.changes())
}

// TestAChangeOfAValueIsShown changes values that decide what runs or where something is sent, and secrets.
func TestAChangeOfAValueIsShown(t *testing.T) {
	for name, c := range map[string]struct {
		settings, before, after string
		changes                 []string
	}{
		"code in an environment": {serving + "env = { GIT_SSH_COMMAND = \"OLD\" }", "ssh", "touch x;false", []string{
			"- mcp.servers[mine].env.GIT_SSH_COMMAND = 'ssh'", "+ mcp.servers[mine].env.GIT_SSH_COMMAND = 'touch x;false'"}},
		"the host of a journal": {"[journal]\nurl = \"postgres://u:pw@OLD/x\"", "a", "b", []string{
			"- journal.url = 'postgres://u:hidden@a/x'", "+ journal.url = 'postgres://u:hidden@b/x'",
			"a secret of journal.url changed"}},
		"a password in a URL": {"[journal]\nurl = \"postgres://u:OLD@a/x\"", "pw", "wp",
			[]string{"a secret of journal.url changed"}},
		"a key": {"[llm]\napi_key = \"OLD\"", "sk-1", "sk-2", []string{"a secret of llm.api_key changed"}},
		"a header": {serving + "headers.X = \"OLD ${Y}\"", "a", "b",
			[]string{"a secret of mcp.servers[mine].headers.X changed"}},
		"the path of a URL": {"[llm]\nbase_url = \"http://a/OLD${KEY}\"", "a", "b", []string{
			"- llm.base_url = 'http://a/a${KEY}'", "+ llm.base_url = 'http://a/b${KEY}'"}},
		"a URL that a rule allows": {"[[policy.rules]]\narguments = { url = \"https://OLD/**\" }", "a", "b", []string{
			"- policy.rules[0].arguments.url = 'https://a/**'", "+ policy.rules[0].arguments.url = 'https://b/**'"}},
		"a default that hides the environment's": {"[llm]\n#OLD", "", "\nbase_url = \"\"", []string{"+ llm.base_url = ''"}},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUser(t)
			u.write("agent.toml", strings.Replace(c.settings, "OLD", c.before, 1))
			u.add(u.dir)
			u.write("agent.toml", strings.Replace(c.settings, "OLD", c.after, 1))
			assert.Equal(t, c.changes, u.changes())
		})
	}
}

// TestAFileThatASecretIsReadFromIsWatched checks files of the folder whose content is a setting: an environment
// variable that decides what runs, or a URL. A file elsewhere is the user's own.
func TestAFileThatASecretIsReadFromIsWatched(t *testing.T) {
	for name, settings := range map[string]string{
		"environment":     serving + "env = { GIT_SSH_COMMAND = \"${file:DIR/value}\" }",
		"a part of it":    serving + "env = { GIT_SSH_COMMAND = \"exec ${file:DIR/value} x\" }",
		"by a link":       serving + "env = { GIT_SSH_COMMAND = \"${file:DIR/link}\" }",
		"a journal's URL": "[journal]\nurl = \"${file:DIR/value}\"",
	} {
		t.Run(name, func(t *testing.T) {
			u := newUser(t)
			elsewhere := filepath.Join(t.TempDir(), "key")
			require.NoError(t, os.WriteFile(elsewhere, []byte("1"), 0o600))
			require.NoError(t, os.Symlink("value", filepath.Join(u.dir, "link")))
			u.write("value", "ssh")
			u.write("agent.toml", strings.ReplaceAll(settings, "DIR", u.dir)+
				"\n[llm]\napi_key = \"${file:"+elsewhere+"}\"")
			u.add(u.dir)
			require.NoError(t, os.WriteFile(elsewhere, []byte("2"), 0o600))
			assert.True(t, u.trusts(u.dir))
			u.write("value", "touch x; false")
			assert.False(t, u.trusts(u.dir))
			assert.Equal(t, []string{"changed file value"}, u.changes())
		})
	}
}

// TestALinkToASecretIsWatched checks that a link of the folder cannot lead to another file of the user later.
func TestALinkToASecretIsWatched(t *testing.T) {
	u, elsewhere := newUser(t), t.TempDir()
	for _, name := range []string{"token", "id_ed25519"} {
		require.NoError(t, os.WriteFile(filepath.Join(elsewhere, name), []byte("1"), 0o600))
	}
	link := filepath.Join(u.dir, "link")
	require.NoError(t, os.Symlink(filepath.Join(elsewhere, "token"), link))
	u.write("agent.toml", "[llm]\napi_key = \"${file:"+link+"}\"\n")
	u.add(u.dir)
	assert.True(t, u.trusts(u.dir))
	require.NoError(t, os.Remove(link))
	require.NoError(t, os.Symlink(filepath.Join(elsewhere, "id_ed25519"), link))
	assert.False(t, u.trusts(u.dir))
	from, to := filepath.Join(elsewhere, "token"), filepath.Join(elsewhere, "id_ed25519")
	assert.Equal(t, []string{"changed file " + link + ", which leads to " + to +
		", outside of the folder; it led to " + from + " before"}, u.changes())

	u.write("value", "1")
	require.NoError(t, os.Remove(link))
	require.NoError(t, os.Symlink("value", link))
	assert.Contains(t, u.changes(), "changed file "+link+", which leads to value; it led to "+from+" before")
	require.NoError(t, os.Remove(link))
	assert.Contains(t, u.changes(), "removed file "+link+"; it led to "+from+" before")
}

// TestTheFilesThatServersRunAreFound has the ways in which a server's settings can name a file of the folder.
func TestTheFilesThatServersRunAreFound(t *testing.T) {
	for name, settings := range map[string]string{
		"a command":                   `command = "./tools/x"`,
		"a command on the PATH":       `command = "x"`,
		"an argument":                 `command = "python3"` + "\n" + `args = ["tools/x"]`,
		"an absolute argument":        `command = "python3"` + "\n" + `args = ["DIR/tools/x"]`,
		"a part of an argument":       `command = "node"` + "\n" + `args = ["--require=./tools/x"]`,
		"a short flag's value":        `command = "node"` + "\n" + `args = ["-rtools/x"]`,
		"after an @":                  `command = "java"` + "\n" + `args = ["@tools/x"]`,
		"a flag's value after an @":   `command = "curl"` + "\n" + `args = ["--data=@tools/x", "-s"]`,
		"a short flag's after an @":   `command = "curl"` + "\n" + `args = ["-d@tools/x"]`,
		"a flag's value with a space": `command = "node"` + "\n" + `args = ["--require=./a link"]`,
		"a short flag's directory":    `command = "make"` + "\n" + `args = ["-Ctools", "-f", "x"]`,
		"a word of a shell's command": `command = "sh"` + "\n" + `args = ["-c", "exec 'tools/x';true"]`,
		"a variable":                  `command = "${TOOLS}/x"`,
		"a default of a variable":     `command = "${NONE:-tools}/x"`,
		"the server's environment":    `command = "python3"` + "\n" + `env = { LD_PRELOAD = "tools/x" }`,
		"the server's directory":      `command = "python3"` + "\n" + `args = ["x"]` + "\n" + `dir = "tools"`,
		"a name without extension":    `command = "node"` + "\n" + `args = ["./tools/server"]`,
		"a link":                      `command = "./link"`,
		"the server's own PATH":       `command = "x"` + "\n" + `env = { PATH = "${HERE}/tools:/bin" }`,
		"a relative PATH":             `command = "env"` + "\n" + `args = ["x"]` + "\n" + `env = { PATH = "tools:/bin" }`,
		"a directory that is literal": `command = "python3"` + "\n" + `args = ["x"]` + "\n" + `dir = "$HERE"`,
		"a directory above a link's":  `command = "env"` + "\n" + `args = ["-C", "deep/..", "sh", "x"]`,
		"the parent of a link":        `command = "sh"` + "\n" + `args = ["deep/../x"]`,
		"a named directory":           `command = "env"` + "\n" + `args = ["--chdir=tools", "sh", "x"]`,
		"a directory that is entered": `command = "sh"` + "\n" + `args = ["-c", "cd tools && exec sh ./x"]`,
	} {
		t.Run(name, func(t *testing.T) {
			u := newUser(t)
			u.environ = append(u.environ, "PATH=/usr/bin:"+filepath.Join(u.dir, "tools"), "HERE="+u.dir)
			u.write("tools/x", "1")
			require.NoError(t, os.Symlink("tools/x", filepath.Join(u.dir, "link")))
			require.NoError(t, os.Symlink("tools/x", filepath.Join(u.dir, "a link")))
			require.NoError(t, os.Symlink("x", filepath.Join(u.dir, "tools/server.js")))
			require.NoError(t, os.Symlink("tools", filepath.Join(u.dir, "$HERE")))
			require.NoError(t, os.Mkdir(filepath.Join(u.dir, "tools/in"), 0o700))
			require.NoError(t, os.Symlink("tools/in", filepath.Join(u.dir, "deep")))
			u.write("agent.toml", "[[mcp.servers]]\nid = \"mine\"\n"+strings.ReplaceAll(settings, "DIR", u.dir)+"\n")
			u.add(u.dir)
			assert.True(t, u.trusts(u.dir))
			u.write("tools/x", "2")
			assert.False(t, u.trusts(u.dir))
			assert.Equal(t, []string{"changed file tools/x"}, u.changes())
		})
	}
}

func TestALinkToAnotherFileIsAChange(t *testing.T) {
	u, outside := newUser(t), filepath.Join(t.TempDir(), "x")
	require.NoError(t, os.WriteFile(outside, nil, 0o600))
	u.write("agent.toml", "[[mcp.servers]]\nid = \"mine\"\ncommand = \"./x\"\n")
	require.NoError(t, os.Symlink(outside, filepath.Join(u.dir, "x")))
	u.add(u.dir)
	assert.True(t, u.trusts(u.dir))
	require.NoError(t, os.WriteFile(outside, []byte("2"), 0o600))
	assert.False(t, u.trusts(u.dir))
}

func TestTrustIsForOneFolderUnderAllItsNames(t *testing.T) {
	u, other := newUser(t), t.TempDir()
	u.write("agent.toml", "[runtime]\nmax_steps = 3\n")
	require.NoError(t, os.CopyFS(other, os.DirFS(u.dir)))
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(u.dir, link))
	u.add(link)
	assert.True(t, u.trusts(u.dir))
	assert.True(t, u.trusts(link))
	assert.False(t, u.trusts(other), "the same content in another folder")
	require.NoError(t, os.Remove(link))
	require.NoError(t, os.Symlink(other, link))
	assert.False(t, u.trusts(link), "the link leads to another folder")

	u.add(other)
	records, err := u.store.List()
	require.NoError(t, err)
	assert.Len(t, records, 2)
	removed, err := u.store.Remove(u.look(u.dir).Root)
	require.NoError(t, err)
	assert.True(t, removed)
	assert.False(t, u.trusts(u.dir))
	assert.True(t, u.trusts(other))
}

// TestAFolderWithoutAFile checks that such a folder is trusted by its record alone, until a file appears in it.
func TestAFolderWithoutAFile(t *testing.T) {
	u := newUser(t)
	assert.False(t, u.trusts(u.dir))
	u.add(u.dir)
	assert.True(t, u.trusts(u.dir))
	u.write("agent.toml", "[runtime]\nmax_steps = 3\n")
	assert.False(t, u.trusts(u.dir))
	assert.Equal(t, []string{"+ runtime.max_steps = 3"}, u.changes())
}

func TestRecordsAreTheirUsersAlone(t *testing.T) {
	u := newUser(t)
	u.write("agent.toml", "[llm]\napi_key = \"sk-canary\"\n")
	u.add(u.dir)
	files, err := os.ReadDir(u.store.Dir())
	require.NoError(t, err)
	require.Len(t, files, 1)
	file := filepath.Join(u.store.Dir(), files[0].Name())
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.EqualValues(t, 0o600, info.Mode().Perm())
	assert.Contains(t, file, "/.everturn/", "the file tools reach no folder of this name")
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.NotContains(t, string(b), "sk-canary")

	require.NoError(t, os.Chmod(u.store.Dir(), 0o777))
	_, err = u.store.Trusts(u.look(u.dir))
	assert.ErrorContains(t, err, "others may write")
	_, err = trust.Open([]string{"HOME=.", "XDG_STATE_HOME=state"})
	assert.Error(t, err, "a relative path would be in the folder")
}

func TestAPipeIsNotRead(t *testing.T) {
	u := newUser(t)
	require.NoError(t, syscall.Mkfifo(filepath.Join(u.dir, "agent.toml"), 0o600))
	_, err := trust.Look(u.dir, u.environ)
	assert.ErrorContains(t, err, "not a regular file")
}

// TestWhatAFileNamesIsShown checks what a user sees before trusting a file: programs, addresses and what they get.
func TestWhatAFileNamesIsShown(t *testing.T) {
	u := newUser(t)
	u.write("AGENTS.md", "")
	u.write("agent.toml", `[llm]
base_url = "http://llm.example:8000/v1"
[[providers]]
id = "groq"
base_url = "https://groq.example/v1"
api_key = "${AWS_SECRET}"
[temporal]
address = "temporal.example:7233"
[policy]
ask_risk = "never"
[[mcp.servers]]
id = "mine"
command = "sh"
args = ["-c", "curl evil\n"]
env = { LD_PRELOAD = "x", GIT_SSH_COMMAND = "ssh -v" }
env_allow = ["GITHUB_TOKEN"]
[[mcp.servers]]
id = "web"
url = "https://mcp.example/mcp"
headers.Authorization = "Bearer ${CI_TOKEN}"
`)
	shown := map[string][]string{}
	for _, s := range u.look(u.dir).Sections() {
		shown[s.Title] = s.Lines
	}
	assert.Equal(t, []string{`sh -c "curl evil\n"   ` +
		`(server mine; environment: GIT_SSH_COMMAND="ssh -v" LD_PRELOAD=x GITHUB_TOKEN)`}, shown["run"])
	assert.Equal(t, []string{
		"http://llm.example:8000/v1   (llm.base_url; gets conversations and OPENAI_API_KEY)",
		"https://groq.example/v1   (provider groq; gets conversations and ${AWS_SECRET})",
		"https://mcp.example/mcp   (server web; gets calls, Authorization with ${CI_TOKEN})",
		"temporal.example:7233   (temporal.address; gets messages and TEMPORAL_API_KEY)",
	}, shown["connect to"])
	assert.Equal(t, []string{"AGENTS.md"}, shown["give the model the instructions of"])
	assert.Contains(t, shown["use these settings"], "policy.ask_risk = 'never'")
	assert.Contains(t, shown["use these settings"], "providers[groq].api_key = 'set' with ${AWS_SECRET}")
	assert.Equal(t, []string{"agent.toml"}, shown["ask again when one of these files changes"])
}

// TestEveryAddressIsShown sets each setting of Config whose name says that it is an address. Those that nothing
// connects to are the exception.
func TestEveryAddressIsShown(t *testing.T) {
	noConnection := []string{"temporal.ui_url", "worker.health_address", "http.public_url"}
	var addresses []string
	var write func(table string, of reflect.Type) string
	write = func(table string, of reflect.Type) (text string) {
		var tables string
		for i := range of.NumField() {
			f := of.Field(i)
			name, inner := f.Tag.Get("toml"), f.Type
			key := strings.TrimPrefix(table+"."+name, ".")
			switch {
			case name == "":
			case inner.Kind() == reflect.Struct:
				tables += "[" + key + "]\n" + write(key, inner)
			case inner.Kind() == reflect.Slice && inner.Elem().Kind() == reflect.Struct:
				tables += "[[" + key + "]]\n" + write(key, inner.Elem())
			case addressed.MatchString(name):
				address := "https://" + strings.ReplaceAll(key, "_", "-") + ".example"
				text += name + " = \"" + address + "\"\n"
				if !slices.Contains(noConnection, key) {
					addresses = append(addresses, address)
				}
			}
		}
		return text + tables
	}
	u := newUser(t)
	u.write("agent.toml", write("", reflect.TypeFor[config.Config]()))
	var shown []string
	for _, s := range u.look(u.dir).Sections() {
		if s.Title == "connect to" {
			for _, line := range s.Lines {
				shown = append(shown, strings.Fields(line)[0])
			}
		}
	}
	assert.Len(t, addresses, 8)
	assert.ElementsMatch(t, addresses, shown)
}

// addressed matches the names of settings that are addresses.
var addressed = regexp.MustCompile("(url|address|issuer)$")

func TestInside(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "in"), 0o700))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "out")))
	assert.True(t, trust.Inside(dir, dir))
	assert.True(t, trust.Inside(dir, filepath.Join(dir, "in")))
	assert.False(t, trust.Inside(dir, filepath.Join(dir, "out")))
	assert.False(t, trust.Inside(filepath.Join(dir, "in"), dir))
	assert.False(t, trust.Inside(dir, filepath.Join(dir, "missing")))
}

// TestAHostileCommandLineIsRefused has a command line whose words and directories would take minutes to look for.
func TestAHostileCommandLineIsRefused(t *testing.T) {
	u := newUser(t)
	var args strings.Builder
	for i := range 500 {
		name := fmt.Sprintf("d%d", i)
		require.NoError(t, os.Mkdir(filepath.Join(u.dir, name), 0o700))
		fmt.Fprintf(&args, "%q, ", name)
	}
	u.write("agent.toml", "[[mcp.servers]]\nid = \"mine\"\ncommand = \"sh\"\nargs = ["+args.String()+"]\n")
	require.ErrorContains(t, u.store.Add(u.look(u.dir), time.Now()), "move it to a script")
}
