package turn

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// TokensOf estimates how many tokens a text of so many bytes has. Providers count differently; four bytes per token is
// usual for English text.
func TokensOf(bytes int) int64 { return (int64(bytes) + bytesPerToken - 1) / bytesPerToken }

// Estimates and bounds of sizes.
const (
	bytesPerToken  = 4       // see TokensOf
	messageTokens  = 8       // tokens that a message takes besides its text
	mediaTokens    = 1500    // tokens of an image
	pruneBytes     = 1 << 10 // a tool output is pruned only if it is longer, in bytes
	maxRefs        = 40      // references to outputs before the window; each takes about 60 tokens
	maxKeptCalls   = 20
	maxVerbatim    = 20_000 // tokens of user messages that are kept verbatim
	maxNotes       = 4
	summaryPart    = 8 // a summary may take 1/summaryPart of the target
	minSummary     = 128
	maxSummary     = 4096
	minReplacement = 50 // a summary must free at least 1/minReplacement of the context to be worth its price
)

// Tokens estimates how many tokens the message takes in a prompt.
func (m Message) Tokens() int64 {
	n := len(m.Text)
	for _, c := range m.ToolCalls {
		n += len(c.Tool) + len(c.Arguments)
	}
	return TokensOf(n) + messageTokens + int64(len(m.Media))*mediaTokens
}

// Tokens estimates how many tokens the prompt takes.
func (p Prompt) Tokens() int64 {
	n := p.fixedTokens()
	for _, m := range p.Messages {
		n += m.Tokens()
	}
	return n
}

// fixedTokens estimates the tokens of the system prompt, note and tools, which compacting does not change.
func (p Prompt) fixedTokens() int64 {
	n := len(p.System) + len(p.Note)
	for _, t := range p.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return TokensOf(n)
}

// CompactionInput is the input of PlanCompaction.
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

// planner plans one compaction. It counts in the package's own estimated tokens, not in the provider's; scale
// converts.
type planner struct {
	CompactionInput
	scale  float64 // the provider's tokens per estimated token
	target int64   // how many estimated tokens the messages may take after compacting
}

// PlanCompaction plans a compaction. It returns the compaction without a summary, and in toSummarize the messages
// that the caller must have summarized; none if the compaction only prunes. A nil compaction means that compacting
// cannot help.
//
// It prunes old tool outputs first, because the model can follow the references. If that is not enough, or if a user
// asked to compact, it replaces the messages before the last step, except for the latest ones that fit. A call and
// its results are never separated.
func PlanCompaction(in CompactionInput) (c *Compaction, toSummarize []Message) {
	p := newPlanner(in)
	c = &Compaction{
		Reason: in.Reason, At: in.Head, Before: in.Projected, Context: in.ContextTokens, Threshold: in.Trigger(),
	}
	if in.Previous != nil { // the new compaction extends the previous one
		c.To, c.Hash, c.PrunedTo, c.Summary, c.Kept = in.Previous.To, in.Previous.Hash, in.Previous.PrunedTo,
			in.Previous.Summary, in.Previous.Kept
	}
	tail := lastStep(in.Window) // from here on, messages are never summarized, and pruned only if nothing else helps
	if pruned, ok := p.planPruning(c, 0, tail, p.target); ok && in.Reason != CompactionManual && pruned > c.PrunedTo {
		c.Method = CompactionPruned
		p.recordKept(c, 0, pruned)
		return c, nil
	}
	cut := p.cut(tail)
	if cut == 0 || !p.worthwhile(cut) { // no summary is possible or worth its price: prune even the last step's outputs
		pruned, _ := p.planPruning(c, 0, len(in.Window), p.target)
		if pruned <= c.PrunedTo {
			return nil, nil
		}
		c.Method = CompactionPruned
		p.recordKept(c, 0, pruned)
		return c, nil
	}
	room := p.target - p.summaryTokens() - p.userTokens()
	pruned, _ := p.planPruning(c, cut, len(in.Window), room)
	c.Method, c.From, c.To = CompactionSummarized, c.To+1, in.From+int64(cut)-1
	c.Hash = "" // the journal fills it in
	p.recordKept(c, cut, pruned)
	return c, in.Window[:cut]
}

// newPlanner returns a planner for the input. It derives scale from the provider's count of the prompt, and target
// from the context window.
func newPlanner(in CompactionInput) planner {
	p := planner{CompactionInput: in, scale: 1}
	if estimated := in.Prompt.Tokens() + in.ReserveTokens; estimated > 0 {
		p.scale = min(max(float64(in.Projected)/float64(estimated), 0.5), 4) // bounded, in case a count is far off
	}
	target := int64(float64(in.ContextTokens) * in.TargetRatio)
	target = max(target-in.ReserveTokens, target/2) // a large reserve must leave some room
	p.target = max(int64(float64(target)/p.scale)-in.Prompt.fixedTokens(), 0)
	return p
}

// lastStep returns the index of the last assistant message, with which the last step begins, or else that of the last
// message. The model has not seen the messages after it, so they must stay.
func lastStep(window []Message) int {
	for i, m := range slices.Backward(window) {
		if m.Role == RoleAssistant {
			return i
		}
	}
	return max(len(window)-1, 0)
}

// userTokens returns how many estimated tokens the user messages that are kept verbatim may take.
func (p planner) userTokens() int64 {
	return min(int64(maxVerbatim/p.scale), p.target/3)
}

// summaryTokens returns how many estimated tokens the summary may take.
func (p planner) summaryTokens() int64 { return SummaryTokens(p.target) }

// SummaryTokens returns the maximum length of a summary, in tokens, if the compacted messages may take target tokens.
func SummaryTokens(target int64) int64 { return min(max(target/summaryPart, minSummary), maxSummary) }

// cut returns the index of the first message of the window that stays in the prompt; the messages before it are
// summarized. Messages from index tail on always stay. Of those before tail, the latest stay that fit, but none if a
// user asked to compact.
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
	for cut < tail && p.Window[cut].Role == RoleTool { // the call is cut off, so its results must be, too
		cut++
	}
	return cut
}

// worthwhile reports whether summarizing the messages before index cut frees enough to be worth its price. Otherwise
// each of the next prompts would pay for a summary of a few messages. A summary that a user or an overflow requires
// is always worthwhile.
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

// planPruning decides which tool outputs to prune so that the messages from index low on take at most room tokens. It
// considers the outputs from index low up to, but not including, high, oldest first. It returns the sequence number
// of the last message to prune; enough is false if the messages still take more than room.
func (p planner) planPruning(c *Compaction, low, high int, room int64) (to int64, enough bool) {
	var size int64
	if low == 0 && c.To > 0 { // the prompt begins with the text of the previous compaction
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
			size -= m.Tokens() - excerptBytes/2 // about the tokens of the excerpt and the reference
			to = p.From + int64(i)
		}
	}
	return to, size <= room
}

// prunable reports whether a reference may replace the message's text: it is a long tool output. A skill's
// instructions are not pruned, because the model must keep following them.
func prunable(m Message, tools map[callKey]string) bool {
	return m.Role == RoleTool && len(m.Text) > pruneBytes && tools[callKey{m.TurnID, m.CallID}] != ActivateSkill
}

// ActivateSkill is the ID of the tool with which a model reads a skill.
const ActivateSkill = "local/activate_skill"

// recordKept sets c.Kept to what stays in prompts: user messages and calls without a normal result before index cut,
// and references to the long tool outputs before cut or up to the sequence number pruned. It adds to what earlier
// compactions kept.
func (p planner) recordKept(c *Compaction, cut int, pruned int64) {
	c.PrunedTo = max(c.PrunedTo, pruned)
	users, calls, refs := slices.Clone(c.Kept.Users), slices.Clone(c.Kept.Calls), slices.Clone(c.Kept.Refs)
	tools := toolNames(p.Window)
	for i, m := range p.Window {
		seq := p.From + int64(i)
		switch {
		case m.Role == RoleUser && i < cut && m.Step == 0 && m.Text != "": // no notice of a late result, which has a step
			users = append(users, KeptMessage{Seq: seq, Text: m.Text})
		case m.Role != RoleTool: // it stays in the window, or the summary covers it
		case i < cut && m.Outcome != OutcomeOK && m.Outcome != OutcomeError: // denied, cancelled or unknown
			calls = append(calls, KeptMessage{Seq: seq, Call: m.CallID, Tool: tools[callKey{m.TurnID, m.CallID}],
				Outcome: m.Outcome, Text: oneLine(Truncate(m.Text, excerptBytes))})
		case i < cut && len(m.Text) > pruneBytes, prunable(m, tools) && seq <= c.PrunedTo:
			// An earlier compaction may have made the reference already.
			if !slices.ContainsFunc(refs, func(r KeptMessage) bool { return r.Seq == seq }) {
				refs = append(refs, refOf(seq, m, tools[callKey{m.TurnID, m.CallID}]))
			}
		}
	}
	slices.SortStableFunc(refs, func(a, b KeptMessage) int { return int(a.Seq - b.Seq) })
	c.Kept = Kept{Users: p.latestThatFit(users), Calls: last(calls, maxKeptCalls), Refs: boundRefs(c, refs)}
}

// boundRefs returns the references to outputs of messages after c.To, which prompts still contain, and the latest
// maxRefs of the others. refs are in ascending order of Seq.
func boundRefs(c *Compaction, refs []KeptMessage) []KeptMessage {
	i := slices.IndexFunc(refs, func(r KeptMessage) bool { return r.Seq > c.To })
	if i < 0 {
		i = len(refs)
	}
	return slices.Concat(last(refs[:i], maxRefs), refs[i:])
}

// latestThatFit returns the latest of the user messages that fit into userTokens. The oldest of them may be cut; its
// Artifact then names the whole text. Messages that an earlier compaction cut stay as they are.
func (p planner) latestThatFit(users []KeptMessage) []KeptMessage {
	room := int(p.userTokens()) * bytesPerToken
	for i, u := range slices.Backward(users) {
		if u.Artifact != "" || len(u.Text) <= room {
			room -= len(u.Text)
			continue
		}
		if room < excerptBytes {
			return users[i+1:]
		}
		hash := HashText(u.Text)
		users[i] = KeptMessage{Seq: u.Seq, Text: Truncate(u.Text, room), Artifact: hash}
		return users[i:]
	}
	return users
}

// last returns the last n elements of list, or all if there are fewer.
func last[T any](list []T, n int) []T { return list[max(len(list)-n, 0):] }

// callKey identifies a tool call in a transcript of several turns.
type callKey struct{ turn, call string }

// toolNames returns the tool of each call that the messages request.
func toolNames(messages []Message) map[callKey]string {
	tools := map[callKey]string{}
	for _, m := range messages {
		for _, c := range m.ToolCalls {
			tools[callKey{m.TurnID, c.ID}] = Truncate(c.Tool, 120)
		}
	}
	return tools
}

// refOf returns the reference to the tool output m with sequence number seq. Its notes are the lines at the end of
// the output that name further artifacts, such as the whole of a truncated output.
func refOf(seq int64, m Message, tool string) KeptMessage {
	r := KeptMessage{Seq: seq, Call: m.CallID, Tool: tool, Bytes: int64(len(m.Text)), Artifact: HashText(m.Text)}
	for line := range strings.SplitSeq(m.Text[max(len(m.Text)-4*excerptBytes, 0):], "\n") {
		if strings.HasPrefix(line, "[") && strings.Contains(line, " is the artifact ") && len(line) <= 2*excerptBytes {
			r.Notes = append(r.Notes, line)
		}
	}
	r.Notes = last(r.Notes, maxNotes)
	return r
}

// HashText returns the ID of a text as an artifact, its hex SHA-256. It must equal journal.HashOf.
func HashText(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// oneLine replaces each run of white space, line breaks included, by one space.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
