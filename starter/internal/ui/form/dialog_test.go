package form_test

import (
	"encoding/json"
	"reflect"
	"runtime"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/starter/internal/ui/form"
	"github.com/everturn/everturn/workflows/turn"
)

// typed runs a dialog as Bubble Tea does. In keys, \n is Enter, < goes back and v is the arrow down; every other rune
// is typed.
func typed(q turn.Elicitation, keys string) *form.Dialog {
	d := form.NewDialog(q)
	var do func(tea.Cmd)
	take := func(msg tea.Msg) { do(d.Update(msg)) }
	do = func(cmd tea.Cmd) {
		if cmd == nil || blinks(cmd) {
			return
		}
		switch msg := cmd().(type) {
		case nil:
		case tea.BatchMsg:
			for _, cmd := range msg {
				do(cmd)
			}
		default:
			take(msg)
		}
	}
	do(d.Init())
	take(tea.WindowSizeMsg{Width: 80, Height: 24})
	for _, r := range keys {
		switch r {
		case '\n':
			take(tea.KeyPressMsg{Code: tea.KeyEnter})
		case '<':
			take(tea.KeyPressMsg{Code: tea.KeyTab, Mod: tea.ModShift})
		case 'v':
			take(tea.KeyPressMsg{Code: tea.KeyDown})
		default:
			take(tea.KeyPressMsg{Code: r, Text: string(r)})
		}
	}
	return d
}

// blinks reports whether a command only waits until the cursor blinks.
func blinks(cmd tea.Cmd) bool {
	return strings.Contains(runtime.FuncForPC(reflect.ValueOf(cmd).Pointer()).Name(), "/cursor.")
}

func TestDialogsEndInAResponse(t *testing.T) {
	two := turn.Elicitation{Key: "k", Schema: json.RawMessage(
		`{"properties":{"name":{"type":"string"},"n":{"type":"integer","default":3}},"required":["name"]}`)}
	address := turn.Elicitation{URL: "https://a.example"}
	for name, c := range map[string]struct {
		q             turn.Elicitation
		keys          string
		action        turn.ElicitationAction
		content, open string // open is shown by a dialog that is not over
	}{
		"both fields":                {two, "Ann\n4\n\n", turn.ElicitationAccept, `{"name":"Ann","n":4}`, ""},
		"a default":                  {two, "Ann\n\n\n", turn.ElicitationAccept, `{"name":"Ann","n":3}`, ""},
		"decline":                    {two, "Ann\n\nv\n", turn.ElicitationDecline, "", ""},
		"cancel":                     {two, "Ann\n\nvv\n", turn.ElicitationCancel, "", ""},
		"a required field":           {two, "\n", "", "", "name: it is required"},
		"no number":                  {two, "Ann\nx\n", "", "", `n: "x" is not a number`},
		"an address":                 {address, "\n", turn.ElicitationAccept, "", ""},
		"an address that is refused": {address, "v\n", turn.ElicitationDecline, "", ""},
		"agreement":                  {turn.Elicitation{}, "\n", turn.ElicitationAccept, `{}`, ""},
		"a form that cannot be read": {turn.Elicitation{Schema: json.RawMessage(`[]`)}, "\n", turn.ElicitationDecline, "",
			""},
		"fields one by one": {turn.Elicitation{Schema: json.RawMessage(everything)}, "Ann\n", "", "", "2/9 "},
	} {
		t.Run(name, func(t *testing.T) {
			d := typed(c.q, c.keys)
			got, over := d.Response()
			assert.Equal(t, c.open == "", over)
			if over {
				assert.Equal(t, turn.ElicitationResponse{Key: c.q.Key, Action: c.action,
					Content: json.RawMessage(c.content)}, normal(got))
				return
			}
			assert.Contains(t, ansi.Strip(d.View()), c.open)
		})
	}
}

func TestTheLastPageShowsWhatIsSent(t *testing.T) {
	q := turn.Elicitation{Schema: json.RawMessage(`{"properties":{"sure":{"type":"boolean"},
		"days":{"type":"array","items":{"enum":["mon","tue"]}},"size":{"enum":["s","l"],"type":"string"}},
		"required":["sure","size"]}`)}
	for keys, want := range map[string]string{
		"\n\n\n":               `{"sure":true,"size":"s"}`,
		"\n\n\n<v\n":           `{"sure":true,"size":"l"}`,
		"\n\n\n<<x\n\n":        `{"sure":true,"days":["mon"],"size":"s"}`,
		"\n\n\n<<<v\n\n\n":     `{"sure":false,"size":"s"}`,
		"\n\n\n<<<v\n\n\n<v\n": `{"sure":false,"size":"l"}`,
	} {
		assert.Contains(t, ansi.Strip(typed(q, keys).View()), want, "%q", keys)
		got, _ := typed(q, keys+"\n").Response()
		assert.Equal(t, want, string(got.Content), "%q", keys)
	}
}

func TestDeselectingADefaultChoosesNothing(t *testing.T) {
	schema := `{"properties":{"days":{"type":"array","default":["mon"],"items":{"enum":["mon","tue"]}}}}`
	got, _ := typed(turn.Elicitation{Schema: json.RawMessage(schema)}, "x\n\n").Response()
	assert.JSONEq(t, `{"days":[]}`, string(got.Content))
	atLeastOne := strings.Replace(schema, `"default"`, `"minItems":1,"default"`, 1)
	assert.Contains(t, ansi.Strip(typed(turn.Elicitation{Schema: json.RawMessage(atLeastOne)}, "x\n").View()),
		"days: [] does not fit")
}

func normal(r turn.ElicitationResponse) turn.ElicitationResponse {
	r.Content = append(json.RawMessage{}, r.Content...)
	return r
}
