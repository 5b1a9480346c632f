package talk

import (
	"fmt"
	"io"
	"time"

	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// eraseLine moves the cursor to the beginning of the line and erases the line (ECMA-48: CR, EL).
const eraseLine = "\r\x1b[K"

// progressEvery is the interval between progress lines on a terminal that cannot replace a line.
const progressEvery = 5 * time.Second

// progress shows the progress of a call on stderr, in a line that the next output replaces. A terminal that cannot
// erase a line (TERM=dumb) gets a new line every progressEvery instead.
func (v *view) progress(e turn.Event) {
	var p turn.ProgressEvent
	if !v.showActivity || !decode(e, &p) {
		return
	}
	text := fmt.Sprintf("… %s %s", app.Line(p.Tool, 60), ui.Progress(p.ToolProgress))
	if v.App.Lookup("TERM") == "dumb" {
		if v.progressAt.IsZero() || e.At.Sub(v.progressAt) >= progressEvery {
			v.activity("%s", text)
			v.progressAt = e.At
		}
		return
	}
	v.pause()
	columns, _ := app.SizeOf(v.App.Err)
	text = termsafe.Fit(app.Printable(text), columns-1) // without the last column, after which a terminal may wrap
	if v.App.Colored(v.App.Err) {
		text = "\x1b[2m" + text + "\x1b[0m"
	}
	io.WriteString(v.App.Err, text)
	v.progressShown = true
}

// eraseProgress erases the line with a call's progress, if there is one.
func (v *view) eraseProgress() {
	if v.progressShown {
		io.WriteString(v.App.Err, eraseLine)
		v.progressShown = false
	}
}
