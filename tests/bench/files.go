package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/everturn/everturn/tests/bench/report"
)

func writeJSON(path string, r any) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return write(path, append(b, '\n'))
}

func write(path string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644) //nolint:gosec // to be read by all
}

func readJSON(path string) (report.Result, error) {
	var r report.Result
	b, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("reading %s: %w", path, err)
	}
	return r, nil
}

// renew makes the run the baseline and puts its figures into the documentation. It prepares every file before it writes
// the first one.
func (p *program) renew(r report.Result) error {
	page := filepath.Join(p.docs, "benchmarks.md")
	texts := map[string][]byte{}
	for path, figures := range map[string]func(io.Writer, report.Result){page: report.Page, p.readme: report.Summary} {
		old, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if texts[path], err = report.Insert(old, r, figures); err != nil {
			return fmt.Errorf("renewing %s: %w", path, err)
		}
	}
	errs := []error{writeJSON(p.baseline, r)}
	for path, text := range texts {
		errs = append(errs, write(path, text))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "bench: accepted; %s, %s and %s are renewed\n", p.baseline, page, p.readme)
	return nil
}
