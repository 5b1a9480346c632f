package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// treeMutant breaks a promise about trees in the source of package internal/workspace, which no worker can wrap: it
// replaces a text of a file by another one. The tests of that package whose names match tests must notice. A mutant
// without a file is a control.
type treeMutant struct {
	name, file, old, new, tests string
}

// treeMutants are played by `go test -overlay`, so the source stays as it is.
var treeMutants = []treeMutant{
	{name: "tree_nothing", tests: "^Test[^A]|TestA[A-S]|TestATree"},
	{"tree_command_uncommitted", "tree.go", "	} else {\n		changes, res.Skipped, x, err = t.changed(ctx)",
		"	} else {\n		_, res.Skipped, x, err = t.changed(ctx)",
		"TestTreeAndTranscriptAgree"},
	{"tree_committed_twice", "tree.go",
		"if res.Commit, err = s.commitOf(ctx, t.state, a); err != nil || res.Commit != \"\" {",
		"if _, err = s.commitOf(ctx, t.state, a); err != nil {", "TestACallCommitsOnce"},
	{"tree_merge_unbound", "merge.go", "if commit == \"\" || named &&", "if commit != \"-\" || named &&", "TestMerge"},
	{"tree_nested_git", "name.go", "case \"\", \".git\",", "case \"\",", "TestNothingRunsOnTheHost"},
	{"tree_git_on_the_host", "tree.go", "	found, err := t.store.scan(ctx, t.root, x)",
		"	status := exec.Command(\"git\", \"status\")\n	status.Dir = t.store.treeDir(t.name)\n	_ = status.Run()\n" +
			"	found, err := t.store.scan(ctx, t.root, x)", "TestNothingRunsOnTheHost"},
	{"tree_hooks_of_the_user", "git.go", `"-c", "core.hooksPath=/dev/null",`, "",
		"TestATreeLeavesTheUsersRepositoryAlone"},
	{"tree_rewind_keeps_files", "state.go", "from, of, calls = st, parent, nil",
		"from, of, calls = st, parent, nil\n			from, _, _ = s.readState(ctx, a.Tenant, of)", "TestAForkBeginsAtItsMessage"},
	{"tree_undo_keeps_files", "move.go", "t.store.restore(ctx, t.root, x, paths)",
		"t.store.restore(ctx, t.root, x, paths[:0])",
		"TestTreeAndTranscriptAgree"},
	{"tree_links_followed", "commit.go", "	d, err := beneath.OpenDir(root, \".\")\n	for _, part := range parts(name) {",
		"	d, err := os.Open(filepath.Join(root.Name(), name))\n	for _, part := range parts(name)[:0] {",
		"TestAttemptsToLeaveATree"},
	{"tree_fence_ignored", "record.go", recorded, "	_, _ = t.push(ctx, to.head), t.advance(ctx, to)\n	return nil",
		"TestAnotherMachineTakesATreeOver"},
	{"tree_push_skipped", "record.go", recorded, strings.Replace(recorded, "t.push(ctx, to.head)", "error(nil)", 1),
		"TestAnotherMachineTakesATreeOver"},
	{"tree_pushed_after_journal", "record.go", recorded, strings.NewReplacer("t.push(ctx, to.head)", "t.advance(ctx, to)",
		"t.advance(ctx, to)", "t.push(ctx, to.head)").Replace(recorded), "TestARemoteThatIsAway"},
	{"tree_taken_from_git", "git.go", "cmd.ExtraFiles = []*os.File{lock.File()}", "_ = lock",
		"TestAKilledProcessKeepsItsTree"},
}

// recorded is how a commit takes effect.
const recorded = `	if err := t.check(ctx); err != nil {
		return err
	}
	if err := t.push(ctx, to.head); err != nil {
		return err
	}
	return t.advance(ctx, to)`

// huntTrees plays the chosen mutants of trees and reports whether the tests noticed each.
func (o order) huntTrees(ctx context.Context) (bool, error) {
	all := true
	chosen := some(o.share, slices.DeleteFunc(slices.Clone(treeMutants),
		func(m treeMutant) bool { return !o.wanted(m.name) }))
	for _, m := range chosen {
		began := time.Now()
		noticed, out, err := m.play(ctx)
		if err != nil {
			return false, err
		}
		verdict := "ESCAPED"
		switch {
		case m.file == "" && noticed:
			verdict, all = "BLAMED", false
		case m.file == "":
			verdict = "passed"
		case noticed:
			verdict = "caught"
		default:
			all = false
		}
		fmt.Printf("%-8s %-26s by %s %5.1fs\n", verdict, m.name, m.tests, time.Since(began).Seconds())
		if verdict == "BLAMED" {
			fmt.Println(out)
		}
	}
	return all, nil
}

// play runs the tests of a mutant and reports whether they failed.
func (m treeMutant) play(ctx context.Context) (failed bool, output string, err error) {
	dir, err := os.MkdirTemp("", "everturn-mutant-")
	if err != nil {
		return false, "", err
	}
	defer os.RemoveAll(dir)
	args := []string{"test", "-count=1", "-run", m.tests}
	if m.file != "" {
		overlay, err := m.overlay(dir)
		if err != nil {
			return false, "", err
		}
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./internal/workspace")...)
	cmd.Dir = filepath.Join(sources(), "../..")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return false, string(out), nil
	case errors.As(err, &exit) && bytes.Contains(out, []byte("--- FAIL")):
		return true, string(out), nil
	}
	return false, "", fmt.Errorf("mutant %s: %w\n%s", m.name, err, out)
}

// overlay writes the mutant's file and the overlay for go test that names it.
func (m treeMutant) overlay(dir string) (string, error) {
	file := filepath.Join(sources(), "../../internal/workspace", m.file)
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return "", fmt.Errorf("mutant %s: %s has its text %d times", m.name, m.file, n)
	}
	changed := strings.Replace(string(text), m.old, m.new, 1)
	if strings.Contains(m.new, "exec.Command") {
		changed = strings.Replace(changed, "import (\n", "import (\n	\"os/exec\"\n", 1)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{file: inDir(dir, m.file)}})
	if err != nil {
		return "", err
	}
	return inDir(dir, "overlay.json"), errors.Join(os.WriteFile(inDir(dir, m.file), []byte(changed), 0o600),
		os.WriteFile(inDir(dir, "overlay.json"), overlay, 0o600))
}
