package completion

import (
	"context"
	"errors"
	"fmt"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/activities/frozen"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// Bounds of prompts, in bytes of the messages' texts and calls. They bound a worker's memory: a prompt is copied
// several times on its way to the model.
const (
	maxPrompt    = 16 << 20      // of one prompt
	largePrompt  = 1 << 20       // a prompt of at least this size counts against largePrompts
	largePrompts = 4 * maxPrompt // of all large prompts that a worker renders at once
)

// loadPrompt loads the messages of the inference's prompt, up to its base, and the compaction that applies to it. A
// large prompt first waits up to workflows.PromptWithin until it fits into largePrompts with the others; the wait does
// not count as working time. The caller calls leave when it no longer needs the prompt; leave returns the prompt's
// bytes to largePrompts. Messages over maxPrompt are a journal.TooLargeError.
func (r *Runner) loadPrompt(ctx context.Context, in *workflows.InferInput, inf journal.Inference, p *prompt,
	clock *attempt.Clock) (leave func(), err error) {
	if err := r.readPrompt(ctx, in, inf, p); err != nil {
		return nil, err
	}
	size, over := promptBytes(p.messages)
	if over >= 0 {
		return nil, &journal.TooLargeError{Seq: in.Prompt.From + int64(over), Max: maxPrompt}
	}
	if size < largePrompt {
		return func() {}, nil
	}
	// Without the messages, because any number of prompts may wait here. The cache, which is bounded, may keep them.
	p.messages = nil
	if err := r.waitForRoom(ctx, size, clock); err != nil {
		return nil, err
	}
	leave = func() { r.prompts.Release(size) }
	if err = r.readPrompt(ctx, in, inf, p); err != nil {
		leave()
	}
	return leave, err
}

// readPrompt sets p.messages to the messages from in.Prompt.From up to the inference's base, and applies the compaction
// that the inference's prompt has so far, which moves in.Prompt.From. It reads only what this worker does not have
// in memory. If the worker ran the session's last inference, and this attempt appended everything since, it reads
// nothing.
func (r *Runner) readPrompt(ctx context.Context, in *workflows.InferInput, inf journal.Inference, p *prompt) error {
	p.read = p.read || r.recall(in, inf, p)
	var cached bool
	if p.messages, cached = r.frozen.Window(inf.Base, in.Prompt.From); !cached {
		p.messages, cached = r.extendWindow(*in, inf)
	}
	if p.read && cached {
		return nil
	}
	missing := journal.PromptContextInput{Turn: in.Turn, From: in.Prompt.From, To: inf.Base.Seq, Compacted: !p.read,
		MaxBytes: maxPrompt}
	if cached {
		missing.From = missing.To + 1
	}
	found, err := r.journal.PromptContext(ctx, missing)
	if p.last.Tokens == 0 {
		p.last = found.Last
	}
	if !p.read && (err == nil || errors.As(err, new(*journal.TooLargeError))) {
		p.read = true
		err = errors.Join(err, r.applyRecorded(ctx, in, inf, p, found.Compaction))
	}
	if err != nil {
		return fmt.Errorf("reading the transcript: %w", err)
	}
	if !cached {
		p.messages = found.Messages
		r.frozen.AddWindow(inf.Base, in.Prompt.From, p.messages, in.Expect)
	}
	return nil
}

// waitForRoom waits until a prompt of this size, in bytes, fits into largePrompts, and counts it there. It returns an
// error after workflows.PromptWithin, or if ctx ends. The clock is paused meanwhile.
func (r *Runner) waitForRoom(ctx context.Context, size int64, clock *attempt.Clock) error {
	defer clock.Pause()()
	ctx, cancel := context.WithTimeout(ctx, workflows.PromptWithin)
	defer cancel()
	if err := r.prompts.Acquire(ctx, size); err != nil {
		return turn.NewError(turn.CodeWorkerUnavailable, err, "this worker has no memory left for another large prompt")
	}
	return nil
}

// promptBytes returns the size of the messages in bytes, including the media sent with them. If the texts and calls
// exceed maxPrompt, over is the index of the message with which they do; otherwise it is -1.
func promptBytes(messages []turn.Message) (size int64, over int) {
	var media int64
	for i, m := range messages {
		if size += frozen.MessageBytes(m); size > maxPrompt {
			return size, i
		}
		for _, item := range m.Media {
			media += item.Bytes
		}
	}
	return size + min(media, maxMediaBytes), -1
}

// CheckSize returns a journal.TooLargeError if the messages are over 16 MiB. from is the sequence number of the first.
func CheckSize(from int64, messages []turn.Message) error {
	if _, over := promptBytes(messages); over >= 0 {
		return &journal.TooLargeError{Seq: from + int64(over), Max: maxPrompt}
	}
	return nil
}

// extendWindow returns the messages from in.Prompt.From up to the inference's base, if the cache has those up to
// in.Expect and this attempt has appended the others.
func (r *Runner) extendWindow(in workflows.InferInput, inf journal.Inference) ([]turn.Message, bool) {
	before, ok := r.frozen.Window(in.Expect, in.Prompt.From)
	if !ok || inf.Base.Seq-int64(len(inf.Appended)) != in.Expect.Seq {
		return nil, false
	}
	messages := append(before, inf.Appended...)
	r.frozen.AddWindow(inf.Base, in.Prompt.From, messages, in.Expect)
	return messages, true
}

// anchor returns the turn's own user message, which the window begins after.
func (r *Runner) anchor(ctx context.Context, in workflows.InferInput) (*turn.Message, error) {
	// This key cannot collide with a window's hash, which is hexadecimal.
	key := turn.Head{Seq: in.Prompt.Anchor, Hash: "anchor of " + in.Turn}
	messages, ok := r.frozen.Window(key, in.Prompt.Anchor)
	if !ok {
		var err error
		if messages, err = r.journal.Window(ctx, in.Turn, in.Prompt.Anchor, in.Prompt.Anchor, maxPrompt); err != nil {
			return nil, fmt.Errorf("reading the turn's request: %w", err)
		}
		if len(messages) != 1 {
			return nil, turn.NewError(turn.CodeInternal, nil, "the turn's request is not in the journal")
		}
		r.frozen.AddWindow(key, in.Prompt.Anchor, messages)
	}
	return &messages[0], nil
}
