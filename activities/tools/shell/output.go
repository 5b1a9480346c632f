package shell

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/workflows/turn"
)

// The first reports of the output of a running command follow every second; later ones are rarer, because the journal
// keeps a bounded number: after t, they follow every t/reportShare.
const (
	reportEvery = time.Second
	reportShare = 20
)

// output is a writer that keeps the first and the last part of what a command writes, and reports it while the command
// runs. It must not implement io.ReaderFrom, which io.Copy would use in place of Write.
type output struct {
	report func(turn.ToolProgress) // nil: there are no reports
	stop   context.CancelFunc      // ends the reports
	done   chan struct{}           // closed when the reports have ended

	mu       sync.Mutex // guards the fields below
	head     []byte
	tail     []byte
	size     int64          // bytes that the command wrote
	stream   *redact.Stream // removes secrets from pending
	pending  string         // what is not reported yet
	reported int64          // bytes that are
	masked   bool           // what is kept has no secrets, either
}

// newOutput returns an output that reports to the call of the context, without secrets, until it is closed.
func newOutput(ctx context.Context, secrets *redact.Redactor) *output {
	o := &output{done: make(chan struct{})}
	ctx, o.stop = context.WithCancel(ctx)
	req, ok := tools.CallInfo(ctx)
	if !ok || req.Progress == nil {
		close(o.done)
		return o
	}
	o.report, o.stream = req.Progress, secrets.Stream()
	go func() {
		defer close(o.done)
		began, timer := time.Now(), time.NewTimer(reportEvery)
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
				o.reportNow()
				timer.Reset(max(reportEvery, time.Since(began)/reportShare))
			}
		}
	}()
	return o
}

// close ends the reports. It may be called twice.
func (o *output) close() {
	o.stop()
	<-o.done
}

// Write implements io.Writer. It reports all bytes as written, so that the command continues after the limit.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(b)
	if o.masked {
		b = []byte(o.stream.Write(string(b)))
	}
	o.keep(b)
	if o.report != nil {
		o.pending += o.stream.Write(string(b))
		if excess := len(o.pending) - 2*turn.MaxOutput; excess > 0 { // of much output only the end is reported
			o.pending, o.reported = o.pending[excess:], o.reported+int64(excess)
		}
	}
	return n, nil
}

// keep keeps a part. The caller holds the lock.
func (o *output) keep(b []byte) {
	o.size += int64(len(b))
	const half = maxOutput / 2
	room := min(half-len(o.head), len(b))
	o.head = append(o.head, b[:room]...)
	o.tail = append(o.tail, b[room:]...)
	if len(o.tail) > 2*half {
		o.tail = append([]byte(nil), o.tail[len(o.tail)-half:]...)
	}
}

// flush keeps what the removal of secrets has held back, when the command has ended.
func (o *output) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.masked {
		o.keep([]byte(o.stream.Flush()))
	}
}

// written returns the number of bytes that the command has written.
func (o *output) written() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.size
}

// part returns at most most bytes of the output, from a byte on, with their first and the next byte. It leaves out what
// was not kept.
func (o *output) part(after int64, most int) (text string, from, next int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	from = min(max(after, 0), o.size)
	kept := o.head
	begin := int64(0)
	if from >= int64(len(o.head)) {
		kept, begin = o.tail, o.size-int64(len(o.tail))
		from = max(from, begin)
	}
	rest := kept[from-begin:]
	text = string(rest[:min(len(rest), most)])
	return text, from, from + int64(len(text))
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

// say reports a message to the call.
func (o *output) say(message string) {
	o.mu.Lock()
	done := float64(o.reported)
	o.mu.Unlock()
	if o.report != nil {
		o.report(turn.ToolProgress{Done: done, Message: message})
	}
}

// reportNow reports what the command has written since the last report.
func (o *output) reportNow() {
	o.mu.Lock()
	p := turn.NewOutput(o.pending, o.reported)
	o.reported, o.pending = o.reported+int64(len(o.pending)), ""
	o.mu.Unlock()
	if p.Output != "" {
		o.report(p)
	}
}
