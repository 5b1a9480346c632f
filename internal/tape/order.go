package tape

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/everturn/everturn/workflows/turn"
)

// orderFile is the file of a tape that was made from a session. It has the session's answers in order.
const orderFile = "order.json"

// Write writes a tape with the answers of one session to a folder without a tape. A replay finds an answer by its
// position: the answer to a prompt that contains n answers of the model is number n, from 0.
func Write(dir string, answers []turn.Completion) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the folder of the tape: %w", err)
	}
	if old, _ := filepath.Glob(filepath.Join(dir, "*.json")); len(old) > 0 {
		return fmt.Errorf("the folder %s has a tape already: name another one", dir)
	}
	e := entry{Version: version, Exchanges: []exchange{}}
	for _, c := range answers {
		c.Raw = nil
		x := exchange{Completion: &c}
		if c.Reasoning != "" {
			x.Stream = append(x.Stream, delta{Reasoning: c.Reasoning})
		}
		if c.Text != "" {
			x.Stream = append(x.Stream, delta{Text: c.Text})
		}
		e.Exchanges = append(e.Exchanges, x)
	}
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	lines.SetEscapeHTML(false)
	lines.SetIndent("", "  ")
	if err := lines.Encode(e); err != nil {
		return err
	}
	if b.Len() > maxFile {
		return fmt.Errorf("the tape would be larger than %d MiB", maxFile>>20)
	}
	return replace(filepath.Join(dir, orderFile), b.String())
}

// answerByPosition returns the answer to a prompt from a tape that was made from a session. The error is
// fs.ErrNotExist if the tape was not made from one.
func (t *Tape) answerByPosition(p turn.Prompt) (entry, error) {
	e, err := t.read(orderFile)
	if err != nil {
		return e, err
	}
	n := 0
	for _, m := range p.Messages {
		if m.Role == turn.RoleAssistant && m.Outcome == "" { // a tape has no incomplete answers
			n++
		}
	}
	if n >= len(e.Exchanges) {
		return e, errors.New("it was made from a session with " + fmt.Sprint(len(e.Exchanges)) + " answers, and this one asks " +
			"for one more")
	}
	e.Exchanges = e.Exchanges[n : n+1]
	return e, nil
}
