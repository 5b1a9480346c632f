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

// tickEvery is the interval between progress lines on a terminal that cannot replace a line.
const tickEvery = 5 * time.Second

// progress shows the progress of a call, in a line that the next output replaces.
func (v *view) progress(e turn.Event) {
	var p turn.ProgressEvent
	if !v.chatty || !decode(e, &p) {
		return
	}
	text := fmt.Sprintf("… %s %s", app.Line(p.Tool, 60), ui.Progress(p.ToolProgress))
	if v.App.Lookup("TERM") == "dumb" {
		if v.ticked.IsZero() || e.At.Sub(v.ticked) >= tickEvery {
			v.activity("%s", text)
			v.ticked = e.At
		}
		return
	}
	v.pause()
	columns, _ := app.SizeOf(v.App.Err)
	text = termsafe.Fit(app.Printable(text), columns-1)
	if v.App.Colored(v.App.Err) {
		text = "\x1b[2m" + text + "\x1b[0m"
	}
	io.WriteString(v.App.Err, text)
	v.ticking = true
}

// wipe erases a call's progress from the screen.
func (v *view) wipe() {
	if v.ticking {
		io.WriteString(v.App.Err, eraseLine)
		v.ticking = false
	}
}
