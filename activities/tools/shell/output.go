package shell

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/workflows/turn"
)

// reportEvery is the interval at which the output of a running command is reported.
const reportEvery = time.Second

// output is a writer that keeps the first and the last part of what a command writes, and reports the latest lines while
// the command runs. It must not implement io.ReaderFrom, which io.Copy would use in place of Write.
type output struct {
	report func(turn.ToolProgress) // may be nil
	stop   func() bool             // ends the reports

	mu       sync.Mutex // guards the fields below
	head     []byte
	tail     []byte
	size     int64 // bytes that the command wrote
	reported int64 // the size at the last report
}

// newOutput returns an output that reports to the call of the context, until it is closed.
func newOutput(ctx context.Context) *output {
	o := &output{stop: func() bool { return false }}
	req, ok := tools.CallInfo(ctx)
	if !ok || req.Progress == nil {
		return o
	}
	o.report = req.Progress
	ended := make(chan struct{})
	var once sync.Once
	o.stop = func() bool { once.Do(func() { close(ended) }); return true }
	go func() {
		tick := time.NewTicker(reportEvery)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				o.reportNow()
			}
		}
	}()
	return o
}

// close ends the reports. It may be called twice.
func (o *output) close() { o.stop() }

// Write implements io.Writer. It reports all bytes as written, so that the command continues after the limit.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.size += int64(len(b))
	const half = maxOutput / 2
	room := min(half-len(o.head), len(b))
	o.head = append(o.head, b[:room]...)
	o.tail = append(o.tail, b[room:]...)
	if len(o.tail) > 2*half {
		o.tail = append([]byte(nil), o.tail[len(o.tail)-half:]...)
	}
	return len(b), nil
}

// text returns what was kept.
func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	tail := o.tail[max(0, len(o.tail)-maxOutput/2):]
	missing := o.size - int64(len(o.head)) - int64(len(tail))
	if missing <= 0 {
		return string(o.head) + string(tail)
	}
	return fmt.Sprintf("%s\n[%d bytes of the output left out]\n%s", o.head, missing, tail)
}

// reportNow reports the latest lines, if the command has written since the last report.
func (o *output) reportNow() {
	o.mu.Lock()
	if o.size == o.reported {
		o.mu.Unlock()
		return
	}
	o.reported = o.size
	latest := o.tail
	if len(latest) == 0 {
		latest = o.head
	}
	const shown = 400 // bytes; a report has room for somewhat more
	text := string(latest[max(0, len(latest)-shown):])
	size := o.size
	o.mu.Unlock()
	if _, after, cut := strings.Cut(text, "\n"); cut && size > shown {
		text = after // without a part of a line
	}
	o.report(turn.ToolProgress{Done: float64(size), Message: text})
}
