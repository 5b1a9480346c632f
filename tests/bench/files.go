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

func writeJSON(path string, r report.Result) error {
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

// renew makes the run the baseline, and puts its figures and pictures into the documentation.
func (p *program) renew(r report.Result) error {
	page := filepath.Join(p.docs, "benchmarks.md")
	errs := []error{
		writeJSON(p.baseline, r),
		insert(page, r, report.Page),
		insert("README.md", r, report.Summary),
	}
	for _, plot := range report.Plots(r) {
		errs = append(errs, p.picture(plot))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "bench: accepted; %s, %s with its pictures and the README's table are renewed\n", p.baseline, page)
	return nil
}

func insert(path string, r report.Result, figures func(io.Writer, report.Result)) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err := report.Insert(old, r, figures)
	if err != nil {
		return fmt.Errorf("renewing %s: %w", path, err)
	}
	return write(path, text)
}

func (p *program) picture(plot report.Plot) error {
	f, err := os.Create(filepath.Join(p.docs, "bench-"+plot.Name+".svg"))
	if err != nil {
		return err
	}
	return errors.Join(plot.SVG(f), f.Close())
}
