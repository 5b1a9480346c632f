package completion

import (
	"fmt"

	"github.com/everturn/everturn/workflows/turn"
)

// A prompt that is surely larger than the model's context window is not sent, also if prompts are not compacted: the
// provider would refuse it, or silently forget its beginning.

// minOutput is the limit of output tokens below which the size of a prompt does not lower it.
const minOutput = 1024

// fitOutput lowers the prompt's limit of output tokens to what the context window leaves, because many servers refuse a
// limit that exceeds it together with the prompt.
func fitOutput(p turn.Prompt, window int64) int {
	room := window - p.Tokens()*5/4 - promptTokens // a quarter more, because Tokens is an estimate
	if window == 0 || p.MaxTokens == 0 || int64(p.MaxTokens) <= room {
		return p.MaxTokens
	}
	return max(int(room), min(p.MaxTokens, minOutput))
}

// checkWindow returns an error with the code context_overflow if the prompt surely exceeds the context window. It
// counts what the provider has counted of the prompt, and for the rest two thirds of the estimate: hardly any text has
// fewer tokens.
func (s spending) checkWindow(p turn.Prompt) error {
	least, window := p.Tokens()*2/3, s.model.ContextTokens
	if s.counted > 0 {
		least = s.counted
		for _, m := range p.Messages[max(len(p.Messages)-s.added, 0):] {
			least += m.Tokens() * 2 / 3
		}
	}
	if window == 0 || least <= window {
		return nil
	}
	return turn.NewError(turn.CodeContextOverflow, nil, fmt.Sprintf("the prompt has more than %d tokens, and the context window of "+
		"%s is %d. It was not sent: start another session, shorten the message, lower max_history_messages, or set "+
		"prompt.compaction = \"auto\"", window, turn.Truncate(p.Model, 80), window))
}
