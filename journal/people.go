package journal

import (
	"fmt"

	"github.com/everturn/everturn/workflows/turn"
)

// CleanWait returns w as stores keep it: see Clean. Texts for people are bounded.
func CleanWait(w turn.Wait) turn.Wait {
	w.Arguments, w.Tool, w.ArgumentsHash = CleanText(w.Arguments), CleanText(w.Tool), CleanText(w.ArgumentsHash)
	w.Why = Preview(CleanText(w.Why), PreviewBytes)
	w.Question = Preview(CleanText(w.Question), SummaryBytes)
	return w
}

// CheckRuling returns r as stores keep it, or says why it is none for w. A call is allowed with the arguments that
// were shown and no others (ErrUnapproved).
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
	return r, nil
}

// checkVerdict refuses verdicts that do not fit the kind of wait, or that contradict Ruling.Allowed.
func checkVerdict(kind turn.WaitKind, r turn.Ruling) error {
	question := kind == turn.WaitQuestion
	fits, allowed := false, false
	switch r.Verdict {
	case turn.VerdictAllowed:
		fits, allowed = !question, true
	case turn.VerdictDenied:
		fits = !question
	case turn.VerdictAnswered:
		fits = question
	case turn.VerdictExpired:
		fits, allowed = true, r.Allowed && !question
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
