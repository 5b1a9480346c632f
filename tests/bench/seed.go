package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/workflows/turn"
)

// said is the size in bytes of a message of a seeded transcript. Messages of a very long transcript are ten times as
// large.
const toldBytes = 5 << 10

// seed gives the session a transcript of about this many bytes: distinct questions and answers.
func (s *subject) seed(ctx context.Context, bytes int) error {
	if bytes == 0 || s.kind == floorish {
		return nil
	}
	size := toldBytes
	if bytes > 4<<20 && bytes != 2000*toldBytes {
		size *= 10
	}
	turns := bytes / size / 2
	if s.kind == cookbk {
		for i := range turns {
			s.carried = append(s.carried,
				openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, Content: line("the user", i, size)},
				openai.ChatCompletionMessage{Role: openai.ChatMessageRoleAssistant, Content: line("the model", i, size)})
		}
		return nil
	}
	j, err := sqlite.Open(ctx, s.harness.journal(s.name), sqlite.Options{Synchronous: "normal"})
	if err != nil {
		return err
	}
	for i := range turns {
		if err := s.past(ctx, j, i, size); err != nil {
			return errors.Join(fmt.Errorf("seeding the journal: %w", err), j.Close())
		}
	}
	return j.Close()
}

func line(who string, i, size int) string {
	l := fmt.Sprintf("%s says line %06d. ", who, i)
	return strings.Repeat(l, size/len(l)+1)[:size]
}

// past writes one completed turn.
func (s *subject) past(ctx context.Context, j *journal.DB, i, size int) error {
	session, id := s.session(0), fmt.Sprintf("%s-past-%d", s.name, i)
	begun, err := j.Begin(ctx, turn.BeginInput{Session: session, Turn: id, WorkflowID: session, RunID: id,
		Message: turn.UserMessage{ID: id, Text: line("the user", i, size)}, At: time.Now()})
	if err != nil {
		return err
	}
	key := journal.StepKey{Turn: id, Step: 1}
	inf, err := j.StartInference(ctx, journal.StartInference{Session: session, Key: key, Expect: begun.Head,
		At: time.Now()})
	if err != nil {
		return err
	}
	text := line("the model", i, size)
	_, err = j.SettleInference(ctx, journal.SettleInference{Session: session, Key: key, Attempt: inf.Attempt,
		Answer: turn.Completion{Text: text, FinishReason: "stop"}, Message: turn.Message{Text: text}, At: time.Now()})
	if err != nil {
		return err
	}
	_, err = j.Finish(ctx, turn.FinishInput{Session: session, Turn: id,
		Result: turn.Result{State: turn.StateCompleted, Reason: turn.FinishAnswered}, Counters: turn.Counters{Step: 1},
		At: time.Now()})
	return err
}
