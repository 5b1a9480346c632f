package check

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"

	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"

	"github.com/everturn/everturn/journal"
)

// Read reads the ledgers of one run from a folder. Ledgers that are not there are empty.
func Read(dir fs.FS) (Ledgers, error) {
	var l Ledgers
	err := errors.Join(
		readJSON(dir, "run.json", &l.Run), readLines(dir, "provider.jsonl", &l.Requests),
		readLines(dir, "tool.jsonl", &l.Effects),
		readLines(dir, "client.jsonl", &l.Client), readLines(dir, "stream.jsonl", &l.Stream),
		readLines(dir, "processes.jsonl", &l.Processes), readLines(dir, "waits.jsonl", &l.Waits),
		l.readSinks(dir), l.readHistories(dir), l.readSessions(dir),
	)
	if err != nil {
		return l, fmt.Errorf("reading the ledgers: %w", err)
	}
	return l, nil
}

func readJSON(dir fs.FS, name string, into any) error {
	b, err := fs.ReadFile(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// readLines reads JSON lines. It skips an unfinished last line: the writer was killed.
func readLines[T any](dir fs.FS, name string, into *[]T) error {
	b, err := fs.ReadFile(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for n := 1; len(b) > 0; n++ {
		line, rest, whole := bytes.Cut(b, []byte("\n"))
		if !whole {
			return nil
		}
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			return fmt.Errorf("%s, line %d: %w", name, n, err)
		}
		*into, b = append(*into, v), rest
	}
	return nil
}

// readHistories reads the histories. They are also sinks, which may hold no secret.
func (l *Ledgers) readHistories(dir fs.FS) error {
	l.Histories = map[string]*historypb.History{}
	return eachFile(dir, "histories", func(name string, b []byte) error {
		h, err := client.HistoryFromJSON(bytes.NewReader(b), client.HistoryJSONOptions{})
		l.Histories[name], l.Sinks["histories/"+name] = h, b
		return err
	})
}

func (l *Ledgers) readSessions(dir fs.FS) error {
	return eachFile(dir, "journal", func(name string, b []byte) error {
		s, err := ReadSession(name, b)
		l.Sessions = append(l.Sessions, s)
		return err
	})
}

// ReadSession reads a session's export.
func ReadSession(name string, export []byte) (Session, error) {
	s := Session{File: name, Problem: exportProblem(export)}
	in := bufio.NewScanner(bytes.NewReader(export))
	in.Buffer(nil, journal.MaxExportLineBytes)
	for in.Scan() {
		var line journal.ExportLine
		if err := json.Unmarshal(in.Bytes(), &line); err != nil {
			return s, err
		}
		s.Lines = append(s.Lines, line)
	}
	return s, in.Err()
}

// exportProblem returns what the journal's own reader says about an export.
func exportProblem(b []byte) error {
	for _, err := range journal.ReadExport(bytes.NewReader(b)) {
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *Ledgers) readSinks(dir fs.FS) error {
	l.Sinks = map[string][]byte{}
	return eachFile(dir, "sinks", func(name string, b []byte) error {
		l.Sinks[name] = b
		return nil
	})
}

func eachFile(dir fs.FS, folder string, do func(name string, b []byte) error) error {
	files, err := fs.ReadDir(dir, folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, f := range files {
		b, err := fs.ReadFile(dir, path.Join(folder, f.Name()))
		if err == nil {
			err = do(f.Name(), b)
		}
		if err != nil {
			return fmt.Errorf("%s/%s: %w", folder, f.Name(), err)
		}
	}
	return nil
}
