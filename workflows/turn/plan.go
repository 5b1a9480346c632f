package turn

// Plan says, by reference, what one inference is to see: the same plan over the same transcript is the same prompt,
// byte for byte.
type Plan struct {
	Model string `json:"model"`
	Mode  Mode   `json:"mode"`
	// Profile is the blob that holds the system prompt and the pinned descriptors.
	Profile string `json:"profile"`
	// From is the first message of the window and Anchor the turn's own request, which is shown even where the
	// window begins after it. The window ends at the head that the inference starts from.
	From   int64 `json:"from"`
	Anchor int64 `json:"anchor"`
	// Note is said to the model after the messages: why it is asked again.
	Note        string   `json:"note,omitempty"`
	Temperature *float64 `json:"temperature,omitempty"`
	MaxTokens   int      `json:"max_tokens,omitempty"`
}

// Window moves the beginning of the prompt's window: while it holds at most max_history_messages it stays, so that
// prompts extend one another; past that it is cut in one block, down to keep_history_messages.
func Window(from, head int64, l Limits) int64 {
	from = max(from, 1)
	if head-from+1 <= int64(l.MaxHistoryMessages) {
		return from
	}
	return head - int64(l.KeepHistoryMessages) + 1
}

// Align drops the results at the beginning of a window whose calls were cut off: a call and its results are never
// separated.
func Align(window []Message) []Message {
	for len(window) > 0 && window[0].Role == RoleTool {
		window = window[1:]
	}
	return window
}

// Profile is the bulk of what a turn pins, kept as one blob.
type Profile struct {
	System      string       `json:"system"`
	Descriptors []Descriptor `json:"descriptors"`
	// Policy is the turn's: calls are weighed where their arguments are. Nil in turns from before policies weighed arguments.
	Policy *Policy `json:"policy,omitempty"`
}

// PinsVersion is the version of the turns that begin now. What a turn does follows the version that it was pinned with,
// so that a history replays as it was recorded: 1 ended at a question and at a call that asks for a person, and waited
// for activities to acknowledge a stop; 2 waits for people, and stops at once; 3 takes a call that nobody has weighed for
// one that asks; 4 has decisions recorded only when the server has them; 5 leaves messages that wait for its end to the next turn,
// also where it is stopped; 6 asks the ledger about a call whose activity failed with an error that is not the activity's; 7 waits
// for a tool server that is away, takes up its tools when it is back, and ends when the model's answer was cut or refused.
const PinsVersion = 7

// Pins are the configuration of a turn: read once, at Start, and kept in history and journal. The type only grows.
type Pins struct {
	Version     int      `json:"v"`
	Tenant      string   `json:"tenant,omitempty"` // whose turn it is; empty: the default tenant
	Agent       string   `json:"agent"`
	Provider    string   `json:"provider"`
	Model       string   `json:"model"`
	Mode        Mode     `json:"mode"`
	Profile     string   `json:"profile"` // blob of Profile
	Limits      Limits   `json:"limits"`
	Policy      Policy   `json:"policy"`
	People      People   `json:"people,omitzero"`
	Tools       []Tool   `json:"tools,omitempty"`
	RetryMax    int      `json:"retry_max"`
	Temperature *float64 `json:"temperature,omitempty"`
	MaxTokens   int      `json:"max_output_tokens,omitempty"`
	// Unavailable are the optional servers whose tools the turn lacks: they could not be asked when it began, nor since.
	Unavailable []string `json:"unavailable,omitempty"`
}

// Find returns the pinned tool with this ID.
func (p Pins) Find(id string) (Tool, bool) {
	for _, t := range p.Tools {
		if t.ID == id {
			return t, true
		}
	}
	return Tool{}, false
}
