package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// eraseLine moves the cursor to the beginning of the line and erases the line (ECMA-48: CR, EL).
const eraseLine = "\r\x1b[K"

// tickEvery is the interval between progress lines on a terminal that cannot replace a line.
const tickEvery = 5 * time.Second

// progress shows the progress of a call, in a line that the next output replaces.
func (v *view) progress(c turn.Chunk) {
	var p turn.ProgressChunk
	if !v.chatty || !decode(c, &p) {
		return
	}
	text := fmt.Sprintf("… %s %s", line(p.Tool, 60), ui.Progress(p.ToolProgress))
	if v.app.lookup("TERM") == "dumb" {
		if v.ticked.IsZero() || c.At.Sub(v.ticked) >= tickEvery {
			v.activity("%s", text)
			v.ticked = c.At
		}
		return
	}
	v.pause()
	columns, _ := sizeOf(v.app.err)
	text = termsafe.Fit(printable(text), columns-1)
	if v.app.colored(v.app.err) {
		text = "\x1b[2m" + text + "\x1b[0m"
	}
	io.WriteString(v.app.err, text)
	v.ticking = true
}

// wipe erases a call's progress from the screen.
func (v *view) wipe() {
	if v.ticking {
		io.WriteString(v.app.err, eraseLine)
		v.ticking = false
	}
}
