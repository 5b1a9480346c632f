package skills_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/internal/skills"
)

var update = flag.Bool("update", false, "rewrite the golden table")

// twenty are skills as projects have them.
var twenty = func() (out []skills.Skill) {
	for _, line := range []string{
		"accessibility|Check pages for accessibility problems|frontend a11y", "api-design|Design HTTP interfaces and errors|api http",
		"benchmarks|Measure speed and memory of programs|performance", "changelog|Keep the changelog of a project|release docs",
		"code-review|Review changes before they are merged|review", "commit-messages|Write messages for git commits|git",
		"data-analysis|Analyse tables and draw charts|data csv", "database-migrations|Change schemas without downtime|sql postgres",
		"debugging|Find the cause of a failure|debug", "docker|Build small container images|containers",
		"go-style|Write Go as its authors do|go golang", "incident-report|Report what happened in an outage|operations",
		"kubernetes|Deploy services to clusters|containers operations", "pdf-forms|Fill forms in PDF documents|pdf",
		"release|Publish a new version|release git", "security-review|Look for vulnerabilities|security review",
		"spreadsheets|Read and write workbooks|excel csv", "sql-queries|Write and explain queries|sql",
		"translation|Translate texts between languages|i18n", "unit-tests|Write tests that fail for one reason|testing go",
	} {
		f := strings.Split(line, "|")
		text := skill(f[0], f[1], "metadata:\n  tags: "+f[2]+"\n", "Body.")
		out = append(out, parsed(f[0], text))
	}
	return out
}()

func parsed(name, text string) skills.Skill {
	dir, err := os.MkdirTemp("", "skills-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	folder := dir + "/" + name
	if err := os.Mkdir(folder, 0o700); err != nil {
		panic(err)
	}
	if err := os.WriteFile(folder+"/"+skills.File, []byte(text), 0o600); err != nil {
		panic(err)
	}
	s, err := skills.ReadFolder(folder)
	if err != nil {
		panic(err)
	}
	return s
}

// TestTheSelectionIsTheSameEverywhere compares the selection of 30 requests from 20 skills with a kept table.
func TestTheSelectionIsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	requests := []string{
		"", "Hello!", "Make a release", "Use the release skill", "write a changelog entry for the release", "review this change",
		"security review please", "Fill in this PDF", "fill the forms in this pdf with pdf-forms", "PDF FORMS", "why does it fail? debug it",
		"debugging", "Write unit tests in Go", "go", "gopher", "golang style", "translate this text", "explain this SQL query",
		"change the postgres schema without downtime", "deploy to kubernetes", "a container image", "containers", "outage report",
		"csv to chart", "Übersetze den Text", "測試 go 代碼", "$docker build", "/release now", "commit messages for git", "api-design and go-style",
	}
	var table strings.Builder
	for _, request := range requests {
		fmt.Fprintf(&table, "%q\n", request)
		for _, c := range skills.Choose(skills.Rank(request, twenty), 1800) {
			fmt.Fprintf(&table, "  %.1f %s (name %t, tag %q, keyword %q)\n", c.Score.Points(), c.Name, c.Score.Name, c.Score.Tag,
				c.Score.Keyword)
		}
	}
	if *update {
		require.NoError(t, os.WriteFile("testdata/selection.txt", []byte(table.String()), 0o600))
	}
	want, err := os.ReadFile("testdata/selection.txt")
	require.NoError(t, err)
	require.Equal(t, string(want), table.String())
}
