package retryafter

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Parse returns how long a response asks to wait, at most limit: Retry-After in seconds or as a date (RFC 9110, 10.2.3), or
// retry-after-ms (OpenAI). It reads a date by the server's own clock if the response shows that (RFC 9110, 6.6.1), because
// this machine's may differ by more than the wait. It returns 0 if the response asks nothing or cannot be read.
func Parse(h http.Header, now time.Time, limit time.Duration) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return capped(ms/1000, limit)
	}
	value := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(value, 64); err == nil {
		return capped(s, limit)
	}
	if theirs, err := http.ParseTime(h.Get("Date")); err == nil {
		now = theirs
	}
	if at, err := http.ParseTime(value); err == nil {
		return capped(at.Sub(now).Seconds(), limit)
	}
	return 0
}

func capped(seconds float64, limit time.Duration) time.Duration {
	if !(seconds > 0) { // NaN too
		return 0
	}
	return time.Duration(min(seconds, limit.Seconds()) * float64(time.Second))
}
