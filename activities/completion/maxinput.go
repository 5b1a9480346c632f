package completion

import "github.com/everturn/everturn/workflows/turn"

// Upper bounds of the tokens that providers count in addition to text.
const (
	messageTokens = 16   // for the roles and separators of a message or tool
	promptTokens  = 512  // for what providers add to every prompt with tools
	imageTokens   = 5000 // for the largest image, after the provider has scaled it
	audioBytes    = 100  // bytes of compressed audio in one token
)

// maxInput returns an upper estimate of the input tokens of a prompt. If the provider has counted the turn's last
// prompt, only the messages that were added are estimated. An estimate of the whole that is below this count is not
// used.
func (s spending) maxInput(p turn.Prompt) int64 {
	most := maxInput(p)
	if s.counted == 0 {
		return most
	}
	added := turn.Prompt{Provider: p.Provider, Model: p.Model, Note: p.Note,
		Messages: p.Messages[max(len(p.Messages)-s.added, 0):]}
	if extended := s.counted + maxInput(added); extended < most || most < s.counted {
		return extended
	}
	return most
}

// maxInput returns an upper estimate of the input tokens of a prompt. An ordinary prompt has about half as many.
func maxInput(p turn.Prompt) int64 {
	n := promptTokens + maxTokensOf(p.System) + maxTokensOf(p.Note) + maxTokensOf(string(p.OutputSchema))
	for _, m := range p.Messages {
		n += messageTokens + maxTokensOf(m.Text)
		for _, c := range m.ToolCalls {
			n += messageTokens + maxTokensOf(c.Tool) + maxTokensOf(c.Arguments) + maxTokensOf(c.WireID)
		}
		if m.Items != nil && m.Items.Provider == p.Provider && m.Items.Model == p.Model { // only then they are sent
			for _, item := range m.Items.Items {
				n += maxTokensOf(string(item.Raw))
			}
		}
		for _, item := range m.Media {
			n += imageTokens + item.Bytes/audioBytes
		}
	}
	for _, t := range p.Tools {
		n += messageTokens + maxTokensOf(t.Name) + maxTokensOf(t.Description) + maxTokensOf(string(t.Schema))
	}
	return n
}

// maxTokensOf returns an upper estimate of a text's tokens. It counts words separately, because a byte-pair tokenizer
// never joins them, and does not count single spaces, because the tokenizer joins each with the word that follows. In
// a test, the estimate was between 1.0 and 3.1 times the larger count of o200k_base and cl100k_base for prose in six
// languages, source code, JSON, hexadecimal, base64 and random letters.
func maxTokensOf(text string) (n int64) {
	for i := 0; i < len(text); {
		end := i + 1
		switch c := text[i]; {
		case letter(c) || digit(c):
			for end < len(text) && (letter(text[end]) || digit(text[end])) {
				end++
			}
			n += maxTokensOfWord(text[i:end])
		case c == ' ':
			for end < len(text) && text[end] == ' ' {
				end++
			}
			if end-i > 1 || end == len(text) { // a run of spaces, or one that no word follows
				n++
			}
		default: // punctuation, white space other than spaces, or a byte of a letter that is not ASCII
			n++
		}
		i = end
	}
	return n
}

// wordBytes is the length, in bytes, from which a word may be a key or part of an encoded file, which have more
// tokens.
const wordBytes = 20

// maxTokensOfWord returns an upper estimate of the tokens of a word of ASCII letters and digits. Each digit counts as
// a token, and so do three letters, or two if the word is in capitals. A long word may be random: with digits each
// byte counts as a token, without digits two thirds of them.
func maxTokensOfWord(word string) int64 {
	digits := 0
	for i := range len(word) {
		if digit(word[i]) {
			digits++
		}
	}
	letters := len(word) - digits
	switch {
	case len(word) >= wordBytes && digits > 0:
		return int64(len(word))
	case len(word) >= wordBytes:
		return int64(len(word)*2/3 + 1)
	case letters > 1 && 'A' <= word[1] && word[1] <= 'Z': // the first letter may be a capital in an ordinary word
		return int64((letters+1)/2 + digits)
	}
	return int64((letters+2)/3 + digits)
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
