package toolbox

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newTestMeter makes the meter of one of several connections.
func newTestMeter(total *totals) *meter { return newMeter(total, 16<<20) }

func TestWhatWasAskedForDoesNotCountAgainstAServer(t *testing.T) {
	m := newTestMeter(newTotals())
	out := stream{m: m}
	for range 2 * messageBurst { // one answer of 64 KiB to each request
		m.asked()
		require.NoError(t, out.bytes(64<<10))
		out.whole()
		require.NoError(t, m.message())
	}
	assert.Nil(t, m.excess())
	assert.Zero(t, m.total.buffered)
}

func TestWhatAServerSendsUnaskedIsBoundedByItsRate(t *testing.T) {
	for rate, dropped := range map[int]bool{7 << 20: true, 512 << 10: true, 200 << 10: false} { // bytes per second
		synctest.Test(t, func(t *testing.T) {
			out := stream{m: newTestMeter(newTotals())}
			for range 600 {
				time.Sleep(time.Second)
				_ = out.bytes(rate)
				out.whole()
			}
			assert.Equal(t, dropped, out.m.excess() != nil, "%d bytes per second", rate)
			out.m.drop(nil)
		})
	}
}

func TestUnfinishedMessagesOfAllServersAreBounded(t *testing.T) {
	total := newTotals()
	small := stream{m: newTestMeter(total)}
	require.NoError(t, small.bytes(1000))
	var large []*stream
	var over error
	for over == nil {
		require.Less(t, len(large), 100)
		large = append(large, &stream{m: newTestMeter(total)})
		over = large[len(large)-1].bytes(16 << 20)
	}
	assert.Equal(t, BoundBuffered, large[len(large)-1].m.excess().Bound)
	assert.Len(t, large, maxBuffered/(16<<20))
	require.NoError(t, small.bytes(1000), "a connection that buffers little was dropped for the others")
	for _, s := range append(large, &small) {
		s.whole()
	}
	assert.Zero(t, total.buffered)
}

func TestTheConnectionThatBuffersMostIsDropped(t *testing.T) {
	total := newTotals()
	hoarder, honest := newTestMeter(total), newTestMeter(total)
	for range 15 { // one answer of 16 MiB on each stream, unfinished
		hoarder.asked()
		require.NoError(t, (&stream{m: hoarder}).bytes(16<<20))
	}
	large := stream{m: honest}
	require.NoError(t, large.bytes(15<<20))
	require.NoError(t, large.bytes(3<<20), "another connection buffers more")
	assert.Nil(t, honest.excess())
	require.NotNil(t, hoarder.excess())
	assert.Equal(t, BoundBuffered, hoarder.excess().Bound)
	require.Error(t, (&stream{m: hoarder}).bytes(1))
}

func TestHTTPRequestsOfAllServersAreBounded(t *testing.T) {
	total := &totals{requests: make(chan struct{}, 2)}
	require.NoError(t, total.enter(t.Context()))
	require.NoError(t, total.enter(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, total.enter(ctx), context.DeadlineExceeded)
	total.leave()
	require.NoError(t, total.enter(t.Context()))
}

func TestAnswersThatAreNotTakenAreBounded(t *testing.T) {
	m := newTestMeter(newTotals())
	for range maxReplies {
		sent, err := m.reply(10)
		require.NoError(t, err)
		sent()
	}
	sent, err := m.reply(maxUnsent)
	require.NoError(t, err)
	_, err = m.reply(1)
	require.Error(t, err)
	assert.Equal(t, BoundUnsent, m.excess().Bound)
	sent()
	_, err = m.reply(1)
	require.NoError(t, err, "it counts what was sent")
	assert.Equal(t, BoundUnsent, m.excess().Bound, "the first excess is what is told")
}

func TestTheValuesOfAMessageAreBounded(t *testing.T) {
	const many = maxValues + 1
	deep := strings.Repeat("[", maxNesting+1)
	for name, c := range map[string]struct {
		events bool
		said   string
		over   Bound // empty: it is within the bounds
	}{
		"a body":                         {said: `{"a":[` + strings.Repeat("{},", many) + `{}]}`, over: BoundValues},
		"a deep body":                    {said: deep, over: BoundNesting},
		"commas in a string":             {said: `{"a":"` + strings.Repeat(`,[\",`, many) + `"}`},
		"an event":                       {events: true, said: "data: [" + strings.Repeat("1,", many), over: BoundValues},
		"an event of many lines":         {events: true, said: strings.Repeat("data: {},\n", many), over: BoundValues},
		"a deep event of many lines":     {events: true, said: strings.Repeat("data: [\nid: ]\n: ]\n", maxNesting+1), over: BoundNesting},
		"a quotation mark before it":     {events: true, said: "id: \"\ndata: " + deep, over: BoundNesting},
		"many events":                    {events: true, said: strings.Repeat("data: [1,2,3]\n\n", messageBurst/2) + strings.Repeat("data: "+deep[1:]+"\n\n", 2)},
		"what is no part of a message":   {events: true, said: ": " + strings.Repeat("[,", many) + "\ndatas: " + deep + "\n dat: " + deep},
		"an unfinished string in a line": {events: true, said: "data: \"\n\ndata: " + deep, over: BoundNesting},
	} {
		t.Run(name, func(t *testing.T) {
			m := newTestMeter(newTotals())
			b := meteredBody{ReadCloser: io.NopCloser(iotest.HalfReader(strings.NewReader(c.said))), stream: stream{m: m, events: c.events}, release: func() {}}
			_, err := io.Copy(io.Discard, struct{ io.Reader }{&b})
			require.NoError(t, b.Close())
			if c.over == "" {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			assert.Equal(t, c.over, m.excess().Bound)
		})
	}
}
