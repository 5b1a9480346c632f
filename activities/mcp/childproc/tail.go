package childproc

import "sync"

// Tail keeps the last bytes that were written to it. It is safe for concurrent use and never fails.
type Tail struct {
	mu   sync.Mutex
	buf  []byte
	next int
	full bool

	onWrite func(n int) // called with the size of each write; may be nil
}

// NewTail returns a Tail that keeps size bytes, which must be positive.
func NewTail(size int) *Tail {
	return &Tail{buf: make([]byte, size)}
}

// Write implements io.Writer. The buffer is a ring: next is the place of the next byte, and, once the ring is full,
// that of the oldest one.
func (t *Tail) Write(p []byte) (int, error) {
	if t.onWrite != nil {
		t.onWrite(len(p))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	if n >= len(t.buf) {
		copy(t.buf, p[n-len(t.buf):])
		t.next, t.full = 0, true
		return n, nil
	}
	k := copy(t.buf[t.next:], p)
	if k < n { // the rest goes to the beginning of the ring
		copy(t.buf, p[k:])
	}
	t.full = t.full || t.next+n >= len(t.buf)
	t.next = (t.next + n) % len(t.buf)
	return n, nil
}

// String returns the bytes kept, oldest first.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.full {
		return string(t.buf[:t.next])
	}
	return string(t.buf[t.next:]) + string(t.buf[:t.next])
}
