package turn

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// Estimates of sizes. Providers count tokens differently; four bytes for each is usual for English text.
const (
	bytesPerToken  = 4
	messageTokens  = 8    // of a message's frame
	mediaTokens    = 1500 // of an image
	pruneBytes     = 1 << 10
	maxRefs        = 40 // a reference takes about 60 tokens
	maxKeptCalls   = 20
	maxNotes       = 4
	summaryPart    = 8 // a summary may take this part of the target
	minSummary     = 128
	maxSummary     = 4096
	minReplacement = 50 // a summary that frees less than this part of the context is not worth its price
)

// Tokens estimates the size of a message in a prompt.
func (m Message) Tokens() int64 {
	n := len(m.Text)
	for _, c := range m.ToolCalls {
		n += len(c.Tool) + len(c.Arguments)
	}
	return int64(n)/bytesPerToken + messageTokens + int64(len(m.Media))*mediaTokens
}

// Tokens estimates the size of a prompt.
func (p Prompt) Tokens() int64 {
	n := p.fixedTokens()
	for _, m := range p.Messages {
		n += m.Tokens()
	}
	return n
}

// fixedTokens estimates the part of a prompt that compacting does not change.
func (p Prompt) fixedTokens() int64 {
	n := len(p.System) + len(p.Note)
	for _, t := range p.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return int64(n) / bytesPerToken
}

// CompactionInput is what a compaction is planned from.
type CompactionInput struct {
	CompactionSettings
	Reason   CompactionReason
	Head     Head        // of the transcript: the last message of Window
	Previous *Compaction // nil if the transcript was not compacted yet
	From     int64       // the number of the first message of Window
	Window   []Message
	Prompt   Prompt // rendered from Previous and Window
	// Projected is the size of Prompt with the reserve for the completion, in the provider's tokens.
	Projected int64
}

// planner counts in estimated tokens. A provider that counts more of them leaves fewer for each part.
type planner struct {
	CompactionInput
	scale  float64 // the provider's tokens for each estimated one
	target int64   // estimated tokens of the compacted messages
}

// PlanCompaction returns the compaction without a summary; todo are the messages that the summary is to cover, if
// it needs one. It returns nil if compacting cannot help.
//
// Old tool outputs go first, because references can be followed. If that is not enough, or a user asked to compact,
// everything before the last step goes, except for the latest messages that fit. A call and its results stay together.
func PlanCompaction(in CompactionInput) (c *Compaction, todo []Message) {
	p := newPlanner(in)
	c = &Compaction{
		Reason: in.Reason, At: in.Head, Before: in.Projected, Context: in.ContextTokens, Threshold: in.Trigger(),
	}
	if in.Previous != nil {
		c.To, c.Hash, c.PrunedTo, c.Summary, c.Kept = in.Previous.To, in.Previous.Hash, in.Previous.PrunedTo,
			in.Previous.Summary, in.Previous.Kept
	}
	tail := lastStep(in.Window)
	if pruned, ok := p.prune(c, 0, tail, p.target); ok && in.Reason != CompactionManual && pruned > c.PrunedTo {
		c.Method = CompactionPruned
		p.keep(c, 0, pruned)
		return c, nil
	}
	cut := p.cut(tail)
	if cut == 0 || !p.worthwhile(cut) {
		pruned, _ := p.prune(c, 0, len(in.Window), p.target)
		if pruned <= c.PrunedTo {
			return nil, nil
		}
		c.Method = CompactionPruned
		p.keep(c, 0, pruned)
		return c, nil
	}
	room := p.target - p.summaryTokens() - p.userTokens()
	pruned, _ := p.prune(c, cut, len(in.Window), room)
	c.Method, c.From, c.To = CompactionSummarized, c.To+1, in.From+int64(cut)-1
	c.Hash = "" // the journal has it
	p.keep(c, cut, pruned)
	return c, in.Window[:cut]
}

func newPlanner(in CompactionInput) planner {
	p := planner{CompactionInput: in, scale: 1}
	if estimated := in.Prompt.Tokens() + in.ReserveTokens; estimated > 0 {
		p.scale = min(max(float64(in.Projected)/float64(estimated), 0.5), 4)
	}
	target := int64(float64(in.ContextTokens) * in.TargetRatio)
	target = max(target-in.ReserveTokens, target/2) // a large reserve must leave some room
	p.target = max(int64(float64(target)/p.scale)-in.Prompt.fixedTokens(), 0)
	return p
}

// lastStep returns the index of the last completion. The model has not seen what follows.
func lastStep(window []Message) int {
	for i, m := range slices.Backward(window) {
		if m.Role == RoleAssistant {
			return i
		}
	}
	return max(len(window)-1, 0)
}

func (p planner) userTokens() int64 {
	return min(int64(float64(p.UserTokens)/p.scale), p.target/3)
}

func (p planner) summaryTokens() int64 { return SummaryTokens(p.target) }

// SummaryTokens returns how long a summary may be if the prompt is to have target tokens.
func SummaryTokens(target int64) int64 { return min(max(target/summaryPart, minSummary), maxSummary) }

// cut returns the index of the first message that stays. Those from tail on always stay.
func (p planner) cut(tail int) int {
	room := p.target - p.userTokens() - p.summaryTokens()
	for _, m := range p.Window[tail:] {
		room -= m.Tokens()
	}
	cut := tail
	for cut > 0 && p.Reason != CompactionManual {
		if room -= p.Window[cut-1].Tokens(); room < 0 {
			break
		}
		cut--
	}
	for cut < tail && p.Window[cut].Role == RoleTool {
		cut++
	}
	return cut
}

// worthwhile reports whether replacing the messages before cut frees enough. Otherwise each of the next prompts would
// pay for a summary of a few messages.
func (p planner) worthwhile(cut int) bool {
	if p.Reason != CompactionProjected {
		return true
	}
	var freed int64
	for _, m := range p.Window[:cut] {
		freed += m.Tokens()
	}
	return float64(freed)*p.scale*minReplacement > float64(p.ContextTokens)
}

// prune returns the number of the message up to which the outputs from index low to high must be pruned, so that the
// messages from low on take at most room tokens; ok is false if that is not enough.
func (p planner) prune(c *Compaction, low, high int, room int64) (to int64, ok bool) {
	var size int64
	if low == 0 && c.To > 0 {
		size = Message{Text: c.Text()}.Tokens()
	}
	window := c.prune(p.From, p.Window)
	for _, m := range window[low:] {
		size += m.Tokens()
	}
	to = c.PrunedTo
	tools := toolNames(p.Window)
	for i := low; i < high && size > room; i++ {
		if m := window[i]; prunable(m, tools) {
			size -= m.Tokens() - excerptBytes/2
			to = p.From + int64(i)
		}
	}
	return to, size <= room
}

// prunable reports whether a reference may replace the message's text: it is a tool's long output, and not a skill's
// instructions.
func prunable(m Message, tools map[callKey]string) bool {
	return m.Role == RoleTool && len(m.Text) > pruneBytes && tools[callKey{m.TurnID, m.CallID}] != ActivateSkill
}

// ActivateSkill is the tool with which a model reads a skill.
const ActivateSkill = "local/activate_skill"

// keep adds to c what stays of the messages before cut, and references to the outputs up to pruned.
func (p planner) keep(c *Compaction, cut int, pruned int64) {
	c.PrunedTo = max(c.PrunedTo, pruned)
	users, calls, refs := slices.Clone(c.Kept.Users), slices.Clone(c.Kept.Calls), slices.Clone(c.Kept.Refs)
	tools := toolNames(p.Window)
	for i, m := range p.Window {
		seq := p.From + int64(i)
		switch {
		case m.Role == RoleUser && i < cut && m.Step == 0 && m.Text != "":
			users = append(users, KeptText{Seq: seq, Text: m.Text})
		case m.Role != RoleTool:
		case i < cut && m.Outcome != OutcomeOK && m.Outcome != OutcomeError:
			calls = append(calls, KeptCall{Seq: seq, Call: m.CallID, Tool: tools[callKey{m.TurnID, m.CallID}],
				Outcome: m.Outcome, Text: oneLine(Truncate(m.Text, excerptBytes))})
		case i < cut && len(m.Text) > pruneBytes, prunable(m, tools) && seq <= c.PrunedTo:
			if !slices.ContainsFunc(refs, func(r Ref) bool { return r.Seq == seq }) {
				refs = append(refs, refOf(seq, m, tools[callKey{m.TurnID, m.CallID}]))
			}
		}
	}
	slices.SortStableFunc(refs, func(a, b Ref) int { return int(a.Seq - b.Seq) })
	c.Kept = Kept{Users: p.verbatim(users), Calls: last(calls, maxKeptCalls), Refs: p.bounded(c, refs)}
}

// bounded keeps all references of the window's outputs, and the latest ones before it.
func (p planner) bounded(c *Compaction, refs []Ref) []Ref {
	i := slices.IndexFunc(refs, func(r Ref) bool { return r.Seq > c.To })
	if i < 0 {
		i = len(refs)
	}
	return slices.Concat(last(refs[:i], maxRefs), refs[i:])
}

// verbatim keeps the latest user messages within the budget; the oldest of them may be cut.
func (p planner) verbatim(users []KeptText) []KeptText {
	room := int(p.userTokens()) * bytesPerToken
	for i, u := range slices.Backward(users) {
		if u.Artifact != "" || len(u.Text) <= room {
			room -= len(u.Text)
			continue
		}
		if room < excerptBytes {
			return users[i+1:]
		}
		hash := hashText(u.Text)
		users[i] = KeptText{Seq: u.Seq, Text: Truncate(u.Text, room), Artifact: hash}
		return users[i:]
	}
	return users
}

func last[T any](list []T, n int) []T { return list[max(len(list)-n, 0):] }

type callKey struct{ turn, call string }

// toolNames returns the tools of the calls that the messages request.
func toolNames(messages []Message) map[callKey]string {
	tools := map[callKey]string{}
	for _, m := range messages {
		for _, c := range m.ToolCalls {
			tools[callKey{m.TurnID, c.ID}] = Truncate(c.Tool, 120)
		}
	}
	return tools
}

func refOf(seq int64, m Message, tool string) Ref {
	r := Ref{Seq: seq, Call: m.CallID, Tool: tool, Bytes: int64(len(m.Text)), Artifact: hashText(m.Text)}
	for line := range strings.SplitSeq(m.Text[max(len(m.Text)-4*excerptBytes, 0):], "\n") {
		if strings.HasPrefix(line, "[") && strings.Contains(line, " is the artifact ") && len(line) <= 2*excerptBytes {
			r.Notes = append(r.Notes, line)
		}
	}
	r.Notes = last(r.Notes, maxNotes)
	return r
}

// hashText returns the name of a text as an artifact: see journal.HashOf.
func hashText(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
