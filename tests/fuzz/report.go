package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxShown bounds how much of a failing input and of its target's output is printed, in bytes.
const maxShown = 2000

// report prints the table and the failures, and returns whether there are none.
func report(out io.Writer, all []outcome) bool {
	fmt.Fprintln(out)
	const row = "%-26s %-18s %11v %11v %7v %6v  %s\n"
	fmt.Fprintf(out, row, "package", "target", "executions", "per second", "corpus", "new", "result")
	ok, marked := true, false
	for _, o := range all {
		rate := "-"
		if o.elapsed > 0 {
			rate = fmt.Sprintf("%.0f", float64(o.execs)/o.elapsed.Seconds())
		}
		fmt.Fprintf(out, row, o.target.short(), o.target.name, o.execs, rate, o.corpus, o.added, o.verdict)
		ok = ok && (o.verdict == passed || o.verdict == deadline)
		marked = marked || o.verdict == deadline
	}
	if marked {
		fmt.Fprintln(out, "\n* go's fuzzer reported its own deadline as a failure: the whole time was run and no input failed")
	}
	for _, o := range all {
		if o.verdict == found || o.verdict == idle || o.verdict == broken {
			fmt.Fprint(out, o.find())
		}
	}
	return ok
}

// find describes what went wrong and how to see it again.
func (o outcome) find() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s  %s.%s\n", o.verdict, o.target.short(), o.target.name)
	if o.input != "" {
		file := filepath.Join(o.target.dir, o.input)
		fmt.Fprintf(&b, "  failing input: %s\n", filepath.Join(o.target.short(), o.input))
		if text, err := os.ReadFile(file); err == nil {
			fmt.Fprint(&b, indent(string(text), "    "))
		}
	}
	if o.replay != "" {
		fmt.Fprintf(&b, "  replay it: go test ./%s -run '^%s$'\n", o.target.short(), strings.Replace(o.replay, "/", "$/^", 1))
	}
	b.WriteString(indent(o.said, "  | "))
	return b.String()
}

// indent shortens a text to maxShown bytes and puts a prefix before each line.
func indent(text, before string) string {
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + "\n… cut"
	}
	var b strings.Builder
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		b.WriteString(before + line)
	}
	return b.String()
}
