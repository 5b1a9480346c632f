package journal

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/everturn/everturn/workflows/turn"
)

func (c *exportCheck) checkWait(e ExportWait) error {
	name := [2]string{e.Turn, e.ID}
	t := c.turns[e.Turn]
	switch {
	case t == nil:
		return fmt.Errorf("wait %q is of turn %q, which the export does not have", e.ID, e.Turn)
	case c.waits[name]:
		return fmt.Errorf("wait %s of turn %s is there already", e.ID, e.Turn)
	case e.Ruling == nil && t.record.State.Terminal():
		return fmt.Errorf("wait %s is open and turn %s is over", e.ID, e.Turn)
	case !reflect.DeepEqual(CleanWait(e.Wait), e.Wait) || e.ArgumentsBytes < 0:
		return fmt.Errorf("wait %s of turn %s is not as a journal keeps it", e.ID, e.Turn)
	}
	c.waits[name] = true
	return errors.Join(badName("wait", e.ID), badWord("risk", e.Risk), CheckWait(e.Wait), c.checkShown(e), checkKeptRuling(e.WaitRecord))
}

// checkShown bounds the arguments that a person is shown.
func (c *exportCheck) checkShown(e ExportWait) error {
	size := len(e.Arguments)
	if e.ArgumentsBlob != "" {
		if err := c.known(e.ArgumentsBlob); err != nil {
			return err
		}
		b, err := c.blob(e.ArgumentsBlob)
		if err != nil {
			return err
		}
		size += len(b)
	}
	if size > turn.WaitArguments {
		return fmt.Errorf("wait %s shows %d bytes of arguments: at most %d", e.ID, size, turn.WaitArguments)
	}
	if e.ArgumentsBytes > int64(size) { // the journal reads the rest from the blob that the hash names
		return c.known(e.ArgumentsHash)
	}
	return nil
}

func checkKeptRuling(w WaitRecord) error {
	if w.Ruling == nil {
		return nil
	}
	r, err := CheckRuling(w.Wait, *w.Ruling)
	if err == nil && (!reflect.DeepEqual(r, *w.Ruling) || r.ID != w.ID) {
		err = errors.New("it is not as a journal keeps it")
	}
	if err != nil {
		return fmt.Errorf("the ruling of wait %s: %w", w.ID, err)
	}
	return nil
}

func (c *exportCheck) checkRule(r turn.SessionRule) error {
	name := [2]string{r.Tool, r.ArgumentsHash}
	switch {
	case r.Tool == "" || len(r.Tool) > MaxIDBytes:
		return fmt.Errorf("a rule's tool is %d bytes; it must be 1 to %d", len(r.Tool), MaxIDBytes)
	case c.rules[name]:
		return fmt.Errorf("a rule about %s is there already", r.Tool)
	case len(c.rules) == maxRules:
		return fmt.Errorf("there are more than %d rules", maxRules)
	}
	c.rules[name] = true
	return nil
}

// maxRules bounds the rules of an export: each is one that a person allowed.
const maxRules = 10_000
