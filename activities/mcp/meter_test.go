package mcp

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newTestMeter returns the meter of one of several connections.
func newTestMeter(total *totals) *meter { return newMeter("srv", total, 16<<20) }

// requestID returns the ID of request number n.
func requestID(t *testing.T, n int) jsonrpc.ID {
	t.Helper()
	id, err := jsonrpc.MakeID(float64(n))
	require.NoError(t, err)
	return id
}

func TestWhatWasAskedForDoesNotCountAgainstAServer(t *testing.T) {
	m := newTestMeter(newTotals())
	out := stream{meter: m}
	for i := range 2 * messageBurst { // one response of 64 KiB to each request
		m.requestSent(t.Context(), requestID(t, i))
		require.NoError(t, out.countBytes(64<<10))
		out.clearUnfinished()
		require.NoError(t, m.countMessage())
	}
	assert.Nil(t, m.excess())
	assert.Zero(t, m.total.buffered)
}

func TestWhatAServerSendsUnaskedIsBoundedByItsRate(t *testing.T) {
	for rate, dropped := range map[int]bool{7 << 20: true, 512 << 10: true, 200 << 10: false} { // bytes per second
		synctest.Test(t, func(t *testing.T) {
			out := stream{meter: newTestMeter(newTotals())}
			for range 600 {
				time.Sleep(time.Second)
				_ = out.countBytes(rate)
				out.clearUnfinished()
			}
			assert.Equal(t, dropped, out.meter.excess() != nil, "%d bytes per second", rate)
			out.meter.drop(nil)
		})
	}
}

// TestTheCreditOfARequestEndsWithIt checks that a server cannot save up the allowances of many small requests and
// send that much at once.
func TestTheCreditOfARequestEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestMeter(newTotals())
		out := newStream(m.dropped, m)
		for i := range 80 {
			ctx, end := context.WithCancel(t.Context())
			m.requestSent(ctx, requestID(t, i))
			require.NoError(t, out.countBytes(1000))
			require.NoError(t, m.countMessage())
			end()
			synctest.Wait()
		}
		out.clearUnfinished()
		require.NoError(t, out.countBytes(byteBurst))
		require.Error(t, out.countBytes(1000))
		assert.Equal(t, BoundBytes, m.excess().Bound)
	})
}

func TestUnfinishedMessagesOfAllServersAreBounded(t *testing.T) {
	total := newTotals()
	small := stream{meter: newTestMeter(total)}
	require.NoError(t, small.countBytes(1000))
	var large []*stream
	var over error
	for over == nil {
		require.Less(t, len(large), 100)
		large = append(large, &stream{meter: newTestMeter(total)})
		over = large[len(large)-1].countBytes(16 << 20)
	}
	assert.Equal(t, BoundBuffered, large[len(large)-1].meter.excess().Bound)
	assert.Len(t, large, maxBuffered/(16<<20))
	require.NoError(t, small.countBytes(1000), "a connection that buffers little was dropped for the others")
	for _, s := range append(large, &small) {
		s.clearUnfinished()
	}
	assert.Zero(t, total.buffered)
}

// TestAConnectionOfTheServerThatBuffersMostIsDropped checks that a server with many connections cannot cause another
// server's connection to be dropped.
func TestAConnectionOfTheServerThatBuffersMostIsDropped(t *testing.T) {
	total := newTotals()
	var hoarder []*meter
	for range 63 {
		m := newMeter("hoarder", total, 16<<20)
		hoarder = append(hoarder, m)
		require.NoError(t, (&stream{meter: m}).countBytes(4<<20))
	}
	honest := newMeter("honest", total, 16<<20)
	large := stream{meter: honest}
	for range 4 {
		require.NoError(t, large.countBytes(2<<20))
	}
	assert.Nil(t, honest.excess())
	assert.True(t, slices.ContainsFunc(hoarder, func(m *meter) bool { return m.excess() != nil }))
}

func TestHTTPRequestsOfAllServersAreBounded(t *testing.T) {
	total := &totals{requests: make(chan struct{}, 2)}
	require.NoError(t, total.startRequest(t.Context()))
	require.NoError(t, total.startRequest(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, total.startRequest(ctx), context.DeadlineExceeded)
	total.endRequest()
	require.NoError(t, total.startRequest(t.Context()))
}

func TestAnswersThatAreNotTakenAreBounded(t *testing.T) {
	m := newTestMeter(newTotals())
	for range maxReplies + 1 {
		sent, err := m.countReply()
		require.NoError(t, err)
		sent()
	}
	for range maxReplies {
		_, err := m.countReply()
		require.NoError(t, err)
	}
	_, err := m.countReply()
	require.Error(t, err)
	assert.Equal(t, BoundReplies, m.excess().Bound)
}

func TestTheValuesOfAMessageAreBounded(t *testing.T) {
	const many = maxValues + 1
	deep := strings.Repeat("[", maxNesting+1)
	for name, c := range map[string]struct {
		events bool
		output string
		over   Bound // empty: within the bounds
	}{
		"a body":      {output: `{"a":[` + strings.Repeat("{},", many) + `{}]}`, over: BoundValues},
		"a deep body": {output: deep, over: BoundNesting},
		"commas in a string": {output: `{"jsonrpc":"2.0","method":"a","params":["` + strings.Repeat(`,[\",`, many) +
			`"]}`},
		"an event": {events: true, output: `data: {"a":[` + strings.Repeat("1,", many),
			over: BoundValues},
		"an event of many lines": {events: true, output: `data: {"a":[` + "\n" + strings.Repeat("data: {},\n", many),
			over: BoundValues},
		"a deep event of many lines": {events: true, output: strings.Repeat("data: [\nid: ]\n: ]\n", maxNesting+1),
			over: BoundNesting},
		"a quotation mark before it": {events: true, output: "id: \"\ndata: " + deep, over: BoundNesting},
		"many events": {events: true,
			output: strings.Repeat("data: [1,2,3]\n\n", messageBurst/2) + strings.Repeat("data: "+deep[1:]+"\n\n", 2)},
		"what is no part of a message": {events: true,
			output: ": " + strings.Repeat("[,", maxField/2-1) + "\ndatas: " + deep + "\n dat: " + deep},
		"a long comment":              {events: true, output: ":" + strings.Repeat("x", maxField+1), over: BoundField},
		"a long line without a colon": {events: true, output: strings.Repeat("\x01", maxField+2), over: BoundField},
		"many lines that are no data": {events: true, output: strings.Repeat(":"+strings.Repeat("x", maxField-1)+"\n", 10)},
		"a long version":              {output: `{"jsonrpc":"` + strings.Repeat("2", maxEnvelope), over: BoundEnvelope},
		"a long ID in an event": {events: true, output: `data: {"id":` + strings.Repeat("1", maxEnvelope),
			over: BoundEnvelope},
		"long fields of many messages": {events: true,
			output: strings.Repeat(`data: {"id":"`+strings.Repeat("1", maxEnvelope/2)+"\"}\n\n", 4)},
		"a banner of many parts": {output: strings.Repeat("a, ", 2000)},
		"a long result": {output: `{"jsonrpc":"2.0","id":1,"result":{"a":"` +
			strings.Repeat("2", 2*maxEnvelope) + `"}}`},
		"an unfinished string in a line": {events: true, output: "data: \"\n\ndata: " + deep, over: BoundNesting},
	} {
		t.Run(name, func(t *testing.T) {
			m := newTestMeter(newTotals())
			s := newStream(t.Context(), m)
			s.events = c.events
			b := meteredBody{ReadCloser: io.NopCloser(iotest.HalfReader(strings.NewReader(c.output))), stream: s,
				release: func() {}}
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
