package replay

import (
	"fmt"
	"strings"

	historypb "go.temporal.io/api/history/v1"
)

// Shape is a way in which a run's history can go.
type Shape struct {
	Name string // of its file, without .json
	Test string // of package tests, which recorded it; empty if it is gone
	What string // what happens, in words
	// Outline is the expected result of the function Outline. "…" stands for any part of it.
	Outline string
}

// Find returns the shape of a name.
func Find(name string) (Shape, bool) {
	for _, s := range Shapes {
		if s.Name == name {
			return s, true
		}
	}
	return Shape{}, false
}

// Check returns how a history differs from its shape. A shape without an outline fits every history.
func (s Shape) Check(events []*historypb.HistoryEvent) error {
	if got := Outline(events); s.Outline != "" && !fits(s.Outline, got) {
		return fmt.Errorf("this history is not of the shape %s:\n  it is     %s\n  not       %s\nsee tests/replay/shapes.go",
			s.Name, got, s.Outline)
	}
	return nil
}

// fits compares a text with a pattern in which … stands for any text.
func fits(pattern, text string) bool {
	parts := strings.Split(pattern, "…")
	rest, ok := strings.CutPrefix(text, parts[0])
	if len(parts) == 1 {
		return ok && rest == ""
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		_, after, found := strings.Cut(rest, part)
		rest, ok = after, ok && found
	}
	return ok && strings.HasSuffix(rest, parts[last])
}

// Readme returns the table of Shapes as Markdown: testdata/histories/README.md.
func Readme() string {
	var b strings.Builder
	b.WriteString(`# Kept histories

Every shape of history that turns leave behind, recorded from real runs on a real server. ` + "`make replay`" + ` replays
all of them on the current code. From the first release on none is overwritten, edited or deleted. How to keep one more, and why,
is in [tests/replay/doc.go](../../replay/doc.go). This file is made from the table in
[tests/replay/shapes.go](../../replay/shapes.go); how an outline reads is explained in
[tests/replay/outline.go](../../replay/outline.go).

| history | what happens | outline | recorded by |
|---|---|---|---|
`)
	for _, s := range Shapes {
		by := "–"
		if s.Test != "" {
			by = "`" + s.Test + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s |\n", s.Name, s.What, s.Outline, by)
	}
	b.WriteString("\n## Not kept\n\n")
	for _, s := range notKept {
		fmt.Fprintf(&b, "- %s\n", s)
	}
	return b.String()
}
