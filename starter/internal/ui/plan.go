package ui

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// maxPlanLine bounds the line of a plan's step, in runes.
const maxPlanLine = 300

// Plan describes how far a plan has come: a line with the number of steps that are done, and one line for each step.
func Plan(p plan.Progress) string {
	done := 0
	for _, s := range p.Steps {
		if s.State == plan.StateDone {
			done++
		}
	}
	head := fmt.Sprintf("plan: %d of %s done", done, Count(len(p.Steps), "step"))
	if p.Edited {
		head += ", changed by the user"
	}
	if p.Revisions > 0 {
		head += ", revised " + Count(p.Revisions, "time")
	}
	lines := []string{head}
	for line := range strings.SplitSeq(p.String(), "\n") {
		lines = append(lines, "  "+termsafe.Line(line, maxPlanLine))
	}
	return strings.Join(lines, "\n")
}

// Steps lists the steps of a plan that waits for approval, each written one with its arguments; empty if the request is
// about something else.
func Steps(r turn.Request) string {
	proposed, err := plan.Parse(r.Arguments)
	if err != nil || r.Tool != plan.Tool {
		return ""
	}
	lines := strings.Split(proposed.String(), "\n")
	for _, due := range proposed.Calls("") {
		lines[due.Step-1] += "\n    → " + strings.Join(strings.Fields(due.Arguments), " ")
	}
	return strings.Join(lines, "\n")
}

// Editor writes a plan, the arguments of its call, to a temporary file and returns the command that opens the file in
// the user's editor. The caller runs the command and then calls changed, which returns the changed plan, or nil if the
// user did not change it, and removes the file.
func Editor(arguments string) (cmd *exec.Cmd, changed func() (json.RawMessage, error), err error) {
	var text bytes.Buffer
	if err := json.Indent(&text, []byte(arguments), "", "  "); err != nil {
		return nil, nil, fmt.Errorf("the plan cannot be edited: %w", err)
	}
	cmd, edited, err := EditText(text.String()+"\n", "plan-*.json", 2*plan.MaxBytes) // it is indented
	return cmd, func() (json.RawMessage, error) {
		now, err := edited()
		if err != nil || strings.TrimSpace(now) == strings.TrimSpace(text.String()) {
			return nil, err
		}
		return ChangedPlan([]byte(now))
	}, err
}

// EditText writes a text to a temporary file, whose name matches pattern, and returns the command that opens the file in
// the user's editor ($VISUAL, $EDITOR, or vi). The caller runs the command and then calls edited, which returns the text
// of at most maxBytes, and removes the file.
func EditText(text, pattern string, maxBytes int64) (cmd *exec.Cmd, edited func() (string, error), err error) {
	f, err := os.CreateTemp("", "everturn-"+pattern)
	if err != nil {
		return nil, nil, fmt.Errorf("writing a file for the editor: %w", err)
	}
	_, writeErr := f.WriteString(text)
	if err := cmp.Or(writeErr, f.Close()); err != nil {
		os.Remove(f.Name())
		return nil, nil, fmt.Errorf("writing a file for the editor: %w", err)
	}
	editor := cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"), "vi")
	cmd = exec.Command("sh", "-c", editor+` "$1"`, "sh", f.Name()) // the editor may have arguments, as git allows
	return cmd, func() (string, error) {
		defer os.Remove(f.Name())
		f, err := os.Open(f.Name()) // the editor may have replaced the file
		if err != nil {
			return "", fmt.Errorf("reading the text from the editor: %w", err)
		}
		defer f.Close()
		now, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
		if err == nil && int64(len(now)) > maxBytes {
			err = fmt.Errorf("the text from the editor is longer than %s", Bytes(maxBytes))
		}
		return string(now), err
	}, nil
}

// ChangedPlan checks a plan that the user wants instead of the model's, and returns it as compact JSON.
func ChangedPlan(raw []byte) (json.RawMessage, error) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return nil, fmt.Errorf("the changed plan is no JSON: %w", err)
	}
	if _, err := plan.Parse(compact.String()); err != nil {
		return nil, fmt.Errorf("the changed plan cannot be carried out: %w", err)
	}
	return compact.Bytes(), nil
}
