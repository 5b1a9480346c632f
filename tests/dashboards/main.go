// Command dashboards parses each expression of the Grafana dashboards and Prometheus rules in a folder, and prints the
// names of the metrics that they use. It is a module of its own, because Prometheus requires many others.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"gopkg.in/yaml.v3"
)

func main() {
	names, err := metrics(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, name := range names {
		fmt.Println(name)
	}
}

// metrics returns the names of all metrics in the dashboards (*.json) and rules (*.yml) below a folder.
func metrics(dir string) (names []string, err error) {
	var errs []error
	err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		expressions, err := read(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, e := range expressions {
			found, err := metricsOf(e)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w", path, e, err))
			}
			names = append(names, found...)
		}
		return nil
	})
	slices.Sort(names)
	return slices.Compact(names), errors.Join(append(errs, err)...)
}

// read returns the values of all keys "expr" of a dashboard or of rules.
func read(path string) (expressions []string, err error) {
	var unmarshal func([]byte, any) error
	switch {
	case strings.Contains(path, "dashboards/") && filepath.Ext(path) == ".json":
		unmarshal = json.Unmarshal
	case strings.Contains(path, "rules/") && filepath.Ext(path) == ".yml":
		unmarshal = yaml.Unmarshal
	default:
		return nil, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var document any
	if err := unmarshal(b, &document); err != nil {
		return nil, err
	}
	return collect(document), nil
}

func collect(value any) (expressions []string) {
	switch v := value.(type) {
	case map[string]any:
		for key, member := range v {
			if text, ok := member.(string); ok && key == "expr" {
				expressions = append(expressions, text)
			}
			expressions = append(expressions, collect(member)...)
		}
	case []any:
		for _, member := range v {
			expressions = append(expressions, collect(member)...)
		}
	}
	return expressions
}

// variable is Grafana's variable for the interval of a rate.
var variable = regexp.MustCompile(`\$__\w+`)

func metricsOf(expression string) (names []string, err error) {
	e, err := parser.NewParser(parser.Options{}).ParseExpr(variable.ReplaceAllString(expression, "5m"))
	if err != nil {
		return nil, err
	}
	parser.Inspect(e, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			for _, m := range s.LabelMatchers {
				if m.Name == model.MetricNameLabel {
					names = append(names, m.Value)
				}
			}
		}
		return nil
	})
	return names, nil
}
