package ui

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// previewRunes is how many runes of a text a line shows.
const previewRunes = 80

// callRunes is how many runes of a call a line shows.
const callRunes = 120

// Preview returns a text as one line of at most 80 runes.
func Preview(s string) string { return termsafe.Line(s, previewRunes) }

// Excerpt returns s as one line of at most n runes. If s is only the beginning of the data, size is the size of the
// data in bytes; otherwise it may be 0. If the line does not show all data, or ends in an ellipsis of its own, Excerpt
// adds the size.
func Excerpt(s string, n int, size int64) string {
	out := termsafe.Line(s, n)
	if size <= int64(len(s)) && !strings.HasSuffix(out, "…") {
		return out
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.TrimSuffix(out, "…"), max(size, int64(len(s))))
}

// CallStarted describes a call that has started.
func CallStarted(c turn.CallEvent) string {
	return "→ " + CallText(c, "", callRunes)
}

var outcomeMarks = map[turn.Outcome]string{
	turn.OutcomeOK: "✓", turn.OutcomeError: "✗", turn.OutcomeDenied: "✗", turn.OutcomeUnknown: "?",
	turn.OutcomeCancelled: "–",
}

// CallEnded describes a call that has ended, in one line. media are the parts of its result that are not text. It omits
// the size and the duration if they are unknown.
func CallEnded(c turn.CallEvent, media []turn.Media) string {
	what := CallText(c, "", callRunes)
	return strings.TrimSpace(OutcomeMark(c.Outcome)+" "+what) + " · " + CallResult(c, media)
}

// OutcomeMark shows at a glance how a call ended.
func OutcomeMark(o turn.Outcome) string { return cmp.Or(outcomeMarks[o], "·") }

// CallResult describes how a call ended, without naming the call.
func CallResult(c turn.CallEvent, media []turn.Media) string {
	parts := []string{Outcome(c.Outcome, c.Code)}
	if c.Outcome == turn.OutcomeError && Exited(c.Tool, c.Preview) {
		parts[0] = "exit " + exitCode.FindStringSubmatch(c.Preview)[1]
	}
	if c.Outcome == turn.OutcomeUnknown {
		parts[0] += ": it may or may not have taken effect"
	}
	if c.SizeBytes > 0 {
		parts = append(parts, Bytes(c.SizeBytes))
	}
	if c.DurationMS > 0 {
		parts = append(parts, Duration(time.Duration(c.DurationMS)*time.Millisecond))
	}
	return strings.Join(parts, " · ") + Media(media)
}

// exitCode matches the line before the output of a command.
var exitCode = regexp.MustCompile(`^\[exit code (-?\d{1,10})\](?:\n|$)`)

// Exited reports whether result is that of a command of this program's shell that has ended by itself.
func Exited(tool, result string) bool {
	return slices.Contains(commandTools, tool) && exitCode.MatchString(result)
}

// CommandOutput returns the output of a command for which Exited reports true, and "" for other calls.
func CommandOutput(tool, result string) string {
	if !Exited(tool, result) {
		return ""
	}
	return result[len(exitCode.FindString(result)):]
}

// Outcome describes how a call ended. code is the error code of the outcome, or empty. If the call did not reach its
// tool, the text names the command that shows why.
func Outcome(outcome turn.Outcome, code turn.Code) string {
	out := termsafe.Line(string(outcome), previewRunes)
	switch code {
	case "":
		return out
	case turn.CodeToolDrift:
		return fmt.Sprintf("%s (%s: `everturn tools diff` shows the quarantined tools)", out, code)
	case turn.CodeToolNotSent:
		return fmt.Sprintf("%s (%s: `everturn tools status` shows the state of its server)", out, code)
	}
	return fmt.Sprintf("%s (%s)", out, Preview(string(code)))
}

// Media returns a short mark for each part of a result that is not text, for instance [image/png, 34 kB].
func Media(media []turn.Media) string {
	out := ""
	for _, m := range media {
		out += fmt.Sprintf(" [%s, %s]", termsafe.Line(m.Type, 60), Bytes(m.Bytes))
	}
	return out
}

// Bytes formats a size.
func Bytes(n int64) string { return humanize.Bytes(uint64(max(n, 0))) }

// Progress describes the progress of a call: the last line of a command's output, or what a server reports. A total of
// 0 means that the total is unknown. The numbers come from a server and may make no sense.
func Progress(p turn.ToolProgress) string {
	if p.Output != "" {
		lines := strings.Split(strings.TrimSpace(p.Output), "\n")
		return Preview(lines[len(lines)-1])
	}
	out := fmt.Sprintf("%.4g", p.Done)
	switch {
	case p.Done == 0 && p.Total == 0 && p.Message != "":
		out = ""
	case p.Total > 0:
		out = fmt.Sprintf("%.0f%% (%.4g of %.4g)", min(max(100*p.Done/p.Total, 0), 100), p.Done, p.Total)
	}
	return strings.TrimSpace(out + " " + Preview(p.Message))
}

// Duration formats a duration, rounded to milliseconds, tenths of a second or seconds, depending on its length.
func Duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
