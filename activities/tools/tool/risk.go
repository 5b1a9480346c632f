package tool

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"github.com/everturn/everturn/workflows/turn"
)

// The words that make a tool's risk high if neither the operator nor a trusted server declares a risk. They are for
// honest tools without annotations; a hostile server can avoid them.
var (
	// harmWords are matched against the tool's name and the names of its arguments.
	harmWords = []string{
		"exec", "execute", "shell", "bash", "powershell", "cmd", "command", "commands", "eval", "script", "sudo", "terminal",
		"delete", "remove", "rm", "unlink", "drop", "destroy", "erase", "purge", "wipe", "truncate", "kill",
	}
	// sendWords are matched against the tool's name, unless it begins with one of readWords: get_post only reads.
	sendWords = []string{"send", "post", "upload", "publish", "push", "webhook", "deploy", "tweet"}
	readWords = []string{"get", "list", "read", "search", "find", "fetch", "show", "describe", "count"}
)

// SuggestedRisk returns the risk, high or medium, that a tool's name and the names of its arguments suggest.
func SuggestedRisk(name string, schema json.RawMessage) turn.Risk {
	if suggestsHarm(name, schema) {
		return turn.RiskHigh
	}
	return turn.RiskMedium
}

// suggestsHarm reports whether a tool's name contains one of harmWords or sendWords, or the name of an argument one of
// harmWords. sendWords do not count if the tool's name begins with one of readWords. schema is that of the arguments.
func suggestsHarm(name string, schema json.RawMessage) bool {
	words := wordsOf(name)
	reads := len(words) > 0 && slices.Contains(readWords, words[0])
	if containsAny(words, harmWords) || !reads && containsAny(words, sendWords) {
		return true
	}
	var object struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema, &object) != nil {
		return false
	}
	for property := range object.Properties {
		if containsAny(wordsOf(property), harmWords) {
			return true
		}
	}
	return false
}

func containsAny(words, list []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(list, w) })
}

// wordsOf splits run_command, run-command, runCommand and HTTPPost into words in lower case.
func wordsOf(name string) []string {
	var spaced []rune
	runes := []rune(name)
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			r = ' '
		case i > 0 && unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			// A word begins at a capital after a small letter, or at the last capital of an abbreviation.
			spaced = append(spaced, ' ')
		}
		spaced = append(spaced, unicode.ToLower(r))
	}
	return strings.Fields(string(spaced))
}
