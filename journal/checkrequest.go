package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/everturn/everturn/workflows/turn"
)

// CleanWait returns w as stores keep it: see clean. Texts for people are bounded. Only an elicitation has an inquiry.
func CleanWait(w turn.Wait) turn.Wait {
	if w.Kind != turn.WaitApproval || !slices.Contains([]turn.Scope{turn.AlwaysCall, turn.AlwaysNever}, w.Widest) {
		w.Widest = ""
	}
	w.Arguments, w.Tool, w.ArgumentsHash = CleanText(w.Arguments), CleanText(w.Tool), CleanText(w.ArgumentsHash)
	w.Why = Preview(CleanText(w.Why), PreviewBytes)
	w.Question = Preview(CleanText(w.Question), SummaryBytes)
	if w.Kind != turn.WaitElicitation || w.Inquiry == nil {
		w.Inquiry, w.Call = nil, ""
		return w
	}
	w.Call = CleanText(w.Call)
	w.Inquiry = &turn.Inquiry{
		Key: CleanText(w.Inquiry.Key), Message: Preview(CleanText(w.Inquiry.Message), SummaryBytes),
		Schema: compact(w.Inquiry.Schema), URL: CleanText(w.Inquiry.URL),
	}
	return w
}

// compact returns JSON without needless spaces, and what is no JSON as it is. Nothing is nil.
func compact(raw json.RawMessage) json.RawMessage {
	text := CleanText(string(raw))
	if text == "" {
		return nil
	}
	var b bytes.Buffer
	if json.Compact(&b, []byte(text)) != nil {
		return json.RawMessage(text)
	}
	return b.Bytes()
}

// checkWait refuses a request that cannot be decided. An elicitation has an inquiry, of MaxInquiryBytes at most.
func checkWait(w turn.Wait) error {
	switch w.Kind {
	case turn.WaitApproval, turn.WaitQuestion:
		return nil
	case turn.WaitElicitation:
	default:
		return fmt.Errorf("there is no kind %q of waits", w.Kind)
	}
	if w.Inquiry == nil || w.Call == "" {
		return errors.New("what a tool's server asks has an inquiry and the call that it belongs to")
	}
	q := w.Inquiry
	if len(q.Schema) > 0 && !json.Valid(q.Schema) {
		return errors.New("the inquiry's schema is no JSON")
	}
	if n := len(q.Key) + len(q.Message) + len(q.Schema) + len(q.URL); n > MaxInquiryBytes {
		return fmt.Errorf("the inquiry has %d bytes: at most %d", n, MaxInquiryBytes)
	}
	return nil
}

// CheckRuling returns r as stores keep it, or says why it is none for w. A call is allowed with the arguments that
// were shown and no others (ErrUnapproved). A reply belongs to an elicitation, and its key is the inquiry's.
func CheckRuling(w turn.Wait, r turn.Ruling) (turn.Ruling, error) {
	r.By, r.Reason = Preview(CleanText(r.By), PreviewBytes), Preview(CleanText(r.Reason), SummaryBytes)
	r.ArgumentsHash = CleanText(r.ArgumentsHash)
	if err := checkVerdict(w.Kind, r); err != nil {
		return r, err
	}
	if r.Verdict == turn.VerdictExpired && r.ArgumentsHash == "" {
		r.ArgumentsHash = w.ArgumentsHash // nobody saw anything
	}
	if r.Allowed && r.ArgumentsHash != w.ArgumentsHash {
		return r, fmt.Errorf("what was allowed has the hash %.8s, the call's arguments %.8s: %w", r.ArgumentsHash, w.ArgumentsHash, ErrUnapproved)
	}
	switch r.Always {
	case "", turn.AlwaysCall, turn.AlwaysTool:
	default:
		return r, fmt.Errorf("there is no scope %q", r.Always)
	}
	if r.Verdict != turn.VerdictAllowed {
		r.Always = ""
	}
	var err error
	r.Reply, err = checkReply(w, r)
	return r, err
}

// checkVerdict refuses verdicts that do not fit the kind of wait, or that contradict Ruling.Allowed.
func checkVerdict(kind turn.WaitKind, r turn.Ruling) error {
	approval := kind == turn.WaitApproval
	fits, allowed := false, false
	switch r.Verdict {
	case turn.VerdictAllowed:
		fits, allowed = approval, true
	case turn.VerdictDenied:
		fits = approval || kind == turn.WaitElicitation
	case turn.VerdictAnswered:
		fits = !approval
	case turn.VerdictExpired:
		fits, allowed = true, r.Allowed && approval
	case turn.VerdictCancelled:
		fits = true
	}
	if !fits {
		return fmt.Errorf("the verdict %q is none for a wait of kind %q", r.Verdict, kind)
	}
	if r.Allowed != allowed {
		return fmt.Errorf("the verdict %q and allowed=%v contradict each other", r.Verdict, r.Allowed)
	}
	return nil
}

// checkReply returns the ruling's reply as stores keep it. An answered elicitation has one; an expired one has none.
func checkReply(w turn.Wait, r turn.Ruling) (*turn.Reply, error) {
	said := r.Verdict == turn.VerdictAnswered || r.Verdict == turn.VerdictDenied
	switch {
	case w.Kind != turn.WaitElicitation || !said:
		return nil, nil
	case r.Reply == nil && r.Verdict == turn.VerdictAnswered:
		return nil, errors.New("what a tool's server asks is answered with a reply, and there is none")
	case r.Reply == nil:
		return nil, nil
	}
	reply := turn.Reply{Key: CleanText(r.Reply.Key), Action: r.Reply.Action}
	if reply.Action == turn.ReplyAccept && (w.Inquiry == nil || w.Inquiry.URL == "") { // elsewhere there is nothing to say
		reply.Content = compact(r.Reply.Content)
	}
	if reply.Key == "" && w.Inquiry != nil {
		reply.Key = w.Inquiry.Key
	}
	switch {
	case w.Inquiry != nil && reply.Key != w.Inquiry.Key:
		return nil, fmt.Errorf("the reply is to %q, and %q was asked", Preview(reply.Key, 80), Preview(w.Inquiry.Key, 80))
	case reply.Action != turn.ReplyAccept && reply.Action != turn.ReplyDecline && reply.Action != turn.ReplyCancel:
		return nil, fmt.Errorf("the reply's action is %q: use accept, decline or cancel", Preview(string(reply.Action), 80))
	case reply.Content != nil && len(r.Reply.Content) > MaxReplyBytes: // as it was sent
		return nil, fmt.Errorf("the reply has %d bytes: at most %d", len(r.Reply.Content), MaxReplyBytes)
	case len(reply.Content) > 0 && !json.Valid(reply.Content):
		return nil, errors.New("the reply's content is no JSON")
	}
	return &reply, nil
}
