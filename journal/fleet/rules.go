package fleet

import (
	"fmt"
	"slices"
	"time"
)

// The rules of fleet limits. A limit per second or minute holds in every such span of time, wherever it begins, so the
// rows keep when requests were granted. Between the grant and its arrival at the provider a request is delayed, each by
// another time: ArrivalSlack is by how much these delays may differ. The limit holds as long as they differ by less.

// fleetRow is the row of a scope.
type fleetRow struct {
	name      string
	Limits    Limits
	used      fleetUse
	pause     *Pause
	notBefore time.Time
	effective Limits // Limits over the defaults
}

type fleetRows map[string]*fleetRow

// fleetUse is the JSON in which a row keeps what was used.
type fleetUse struct {
	Recent  []use               `json:"recent,omitempty"`  // the last minute, in order
	Workers map[string]inFlight `json:"workers,omitempty"` // the requests in flight of each worker
	Day     spent               `json:"day,omitzero"`
	Month   spent               `json:"month,omitzero"`
}

// use is what was granted between two times that are close together. Times are nanoseconds since 1970.
type use struct {
	From     int64 `json:"f"`
	To       int64 `json:"t"`
	Requests int64 `json:"n"`
	Tokens   int64 `json:"k"`
}

type inFlight struct {
	Requests int64 `json:"n"`
	Until    int64 `json:"u"`
}

// spent are the tokens of a day or month.
type spent struct {
	Of     string `json:"of,omitempty"`
	Tokens int64  `json:"k,omitempty"`
}

// Of grants that are closer together than fineUse, or coarseUse once they are older than recentUse, a row keeps the
// sum.
const (
	fineUse   = 50 * time.Millisecond
	coarseUse = time.Second
	recentUse = 3 * time.Second
)

// ArrivalSlack is the maximum time that a worker may take from a grant to the request. A worker asks again if it took
// longer.
const ArrivalSlack = 150 * time.Millisecond

// span is a limit per span of time.
type span struct {
	limit  LimitName
	within time.Duration // including the slack
	of     func(use) int64
}

var spans = []span{
	{LimitRequestsPerSecond, time.Second + ArrivalSlack, func(u use) int64 { return u.Requests }},
	{LimitRequestsPerMinute, time.Minute + time.Second, func(u use) int64 { return u.Requests }},
	{LimitTokensPerMinute, time.Minute + time.Second, func(u use) int64 { return u.Tokens }},
}

// Refusal says why a request may not be sent now.
type Refusal struct {
	Scope string    `json:"scope"`
	Limit LimitName `json:"limit"`
	Used  int64     `json:"used,omitempty"`
	Max   int64     `json:"max,omitempty"`
	// Retry is the time until the request might fit. It is an estimate, except if the limit is a pause.
	Retry time.Duration `json:"retry"`
	Pause *Pause        `json:"pause,omitempty"`
	// Final means that waiting is pointless: the tokens of the day or the month are used up.
	Final bool `json:"final,omitempty"`
}

// String says what a turn waits for, or what has run out, and what to do about it.
func (r Refusal) String() string {
	about := max(r.Retry, time.Second).Round(time.Second)
	waits := "waits for " + DescribeScope(r.Scope) + ": "
	switch r.Limit {
	case LimitPause:
		why := ""
		if r.Pause.Reason != "" {
			why = " (" + r.Pause.Reason + ")"
		}
		return fmt.Sprintf("%spaused by %s until %s%s", waits, r.Pause.By, r.Pause.Until.Format(time.RFC3339), why)
	case LimitRetryAfter:
		return fmt.Sprintf("%sit refused a request and asked for a pause, about %s", waits, about)
	case LimitInFlight:
		return fmt.Sprintf("%s%d of %d requests in flight", waits, r.Used, r.Max)
	case LimitTokensPerDay, LimitTokensPerMonth:
		return fmt.Sprintf("%s has used %d of %d tokens (%s, UTC), too many for this inference: wait until it ends, in %s, "+
			"or raise the limit with `everturn limits set %s`", DescribeScope(r.Scope), r.Used, r.Max, r.Limit, about, r.Scope)
	}
	what := map[LimitName]string{LimitRequestsPerSecond: "requests this second",
		LimitRequestsPerMinute: "requests this minute", LimitTokensPerMinute: "tokens this minute"}[r.Limit]
	return fmt.Sprintf("%s%d of %d %s, about %s", waits, r.Used, r.Max, what, about)
}

// lease applies the input to rows that are locked. again means that it may have been applied already: then nothing is
// given back twice.
func (rows fleetRows) lease(in CapacityInput, now time.Time, again bool) CapacityResult {
	out := CapacityResult{At: now, Read: time.Now()}
	for _, r := range rows {
		r.forget(now)
		r.setInFlight(in.Worker, in.InFlight[r.name], now)
	}
	for _, e := range in.Ended {
		for _, scope := range e.Scopes {
			if r := rows[scope]; r != nil && !again {
				r.settle(e, now)
			}
		}
	}
	for scope, after := range in.RetryAfter {
		if r := rows[scope]; r != nil && now.Add(after).After(r.notBefore) {
			r.notBefore = now.Add(after)
		}
	}
	full := map[string]*Refusal{} // a later request must not overtake one that waits for the same limit
	for _, request := range in.Requests {
		refusal := rows.check(request, now)
		if refusal == nil {
			refusal = rows.overtaken(request, full)
		}
		if refusal == nil {
			rows.grant(in.Worker, request, now)
		} else if !refusal.Final && full[refusal.Scope] == nil {
			full[refusal.Scope] = refusal
		}
		out.Refusals = append(out.Refusals, refusal)
	}
	return out
}

func (rows fleetRows) overtaken(request CapacityRequest, full map[string]*Refusal) *Refusal {
	for _, scope := range request.Scopes {
		if full[scope] != nil {
			return full[scope]
		}
	}
	return nil
}

// check returns the refusal that lasts longest.
func (rows fleetRows) check(request CapacityRequest, now time.Time) (worst *Refusal) {
	for _, scope := range request.Scopes {
		if r := rows[scope]; r != nil {
			for _, refusal := range r.refusals(request, now) {
				if worst == nil || refusal.Final && !worst.Final || refusal.Final == worst.Final && refusal.Retry > worst.Retry {
					worst = refusal
				}
			}
		}
	}
	return worst
}

func (r *fleetRow) refusals(request CapacityRequest, now time.Time) (out []*Refusal) {
	is := r.scope(now)
	if is.Pause != nil {
		out = append(out, &Refusal{Scope: r.name, Limit: LimitPause, Retry: is.Pause.Until.Sub(now), Pause: is.Pause})
	}
	if !is.NotBefore.IsZero() {
		out = append(out, &Refusal{Scope: r.name, Limit: LimitRetryAfter, Retry: is.NotBefore.Sub(now)})
	}
	for _, s := range spans {
		if refusal := r.exceeds(s, request, now); refusal != nil {
			out = append(out, refusal)
		}
	}
	if most := r.share(LimitInFlight, request); most > 0 && is.Usage.RequestsInFlight >= most {
		out = append(out, &Refusal{Scope: r.name, Limit: LimitInFlight, Used: is.Usage.RequestsInFlight,
			Max: r.effective[LimitInFlight], Retry: time.Second})
	}
	day, month := periods(now)
	for _, p := range []struct {
		limit LimitName
		used  int64
		ends  time.Time
	}{
		{LimitTokensPerDay, is.Usage.TokensToday, day.AddDate(0, 0, 1)},
		{LimitTokensPerMonth, is.Usage.TokensThisMonth, month.AddDate(0, 1, 0)},
	} {
		if most := r.effective[p.limit]; most > 0 && p.used+request.Tokens > most {
			out = append(out, &Refusal{Scope: r.name, Limit: p.limit, Used: p.used, Max: most, Retry: p.ends.Sub(now),
				Final: true})
		}
	}
	return out
}

// share returns how much of a limit the request may use; 0 means all it wants.
func (r *fleetRow) share(limit LimitName, request CapacityRequest) int64 {
	most := r.effective[limit]
	if most > 0 && request.Background {
		most = max(most*(100-r.effective[LimitReserve])/100, 1)
	}
	return most
}

// exceeds returns a refusal if the request exceeds a limit per span of time. A request that alone exceeds the limit is
// refused only while the span has others; otherwise it could never be sent.
func (r *fleetRow) exceeds(s span, request CapacityRequest, now time.Time) *Refusal {
	most, wants := r.share(s.limit, request), s.of(use{Requests: 1, Tokens: request.Tokens})
	used := r.within(s, now)
	if most == 0 || used == 0 || used+wants <= most {
		return nil
	}
	refusal := &Refusal{Scope: r.name, Limit: s.limit, Used: used, Max: r.effective[s.limit]}
	for _, u := range r.used.Recent {
		if n := s.of(u); u.To > now.Add(-s.within).UnixNano() && n > 0 {
			used -= n
			refusal.Retry = time.Unix(0, u.To).Add(s.within).Sub(now)
			if used+wants <= most {
				break
			}
		}
	}
	return refusal
}

// within returns what was used within a span of time before now.
func (r *fleetRow) within(s span, now time.Time) (n int64) {
	for _, u := range r.used.Recent {
		if u.To > now.Add(-s.within).UnixNano() {
			n += s.of(u)
		}
	}
	return n
}

// grant counts a request.
func (rows fleetRows) grant(worker string, request CapacityRequest, now time.Time) {
	for _, scope := range request.Scopes {
		if r := rows[scope]; r != nil {
			r.add(1, request.Tokens, now)
			r.setInFlight(worker, r.used.Workers[worker].Requests+1, now)
		}
	}
}

func (r *fleetRow) add(requests, tokens int64, now time.Time) {
	at, recent := now.UnixNano(), r.used.Recent
	if n := len(recent); n > 0 && at-recent[n-1].From < int64(fineUse) {
		last := &recent[n-1]
		last.To, last.Requests, last.Tokens = max(at, last.To), last.Requests+requests, last.Tokens+tokens
	} else {
		r.used.Recent = append(recent, use{at, at, requests, tokens})
	}
	r.used.Day.Tokens += tokens
	r.used.Month.Tokens += tokens
}

// settle replaces the estimate of a request by what it used. Tokens that it used in addition count from now on, because
// they may exceed what was free when it was granted.
func (r *fleetRow) settle(e EndedRequest, now time.Time) {
	more := e.Used - e.Reserved
	if more > 0 {
		r.add(0, more, now)
		return
	}
	at := e.At.UnixNano()
	i := slices.IndexFunc(r.used.Recent, func(u use) bool { return u.From <= at && at <= u.To })
	if i >= 0 {
		r.used.Recent[i].Tokens = max(r.used.Recent[i].Tokens+more, 0)
	}
	day, month := periods(now)
	if !e.At.Before(day) {
		r.used.Day.Tokens = max(r.used.Day.Tokens+more, 0)
	}
	if !e.At.Before(month) {
		r.used.Month.Tokens = max(r.used.Month.Tokens+more, 0)
	}
}

func (r *fleetRow) setInFlight(worker string, requests int64, now time.Time) {
	if requests == 0 {
		delete(r.used.Workers, worker)
		return
	}
	if r.used.Workers == nil {
		r.used.Workers = map[string]inFlight{}
	}
	r.used.Workers[worker] = inFlight{requests, now.Add(LeaseExpiry).UnixNano()}
}

// forget removes what no longer counts, and merges what is old.
func (r *fleetRow) forget(now time.Time) {
	var kept []use
	for _, u := range r.used.Recent {
		n := len(kept)
		switch {
		case u.To <= now.Add(-spans[len(spans)-1].within).UnixNano():
		case n > 0 && u.To < now.Add(-recentUse).UnixNano() && u.To-kept[n-1].From < int64(coarseUse):
			last := &kept[n-1]
			last.To, last.Requests, last.Tokens = u.To, last.Requests+u.Requests, last.Tokens+u.Tokens
		default:
			kept = append(kept, u)
		}
	}
	r.used.Recent = kept
	for worker, f := range r.used.Workers {
		if f.Until <= now.UnixNano() {
			delete(r.used.Workers, worker)
		}
	}
	day, month := periods(now)
	r.used.Day, r.used.Month = r.used.Day.in(day.Format(time.DateOnly)), r.used.Month.in(month.Format("2006-01"))
}

// in returns what was spent in a period.
func (s spent) in(period string) spent {
	if s.Of != period {
		return spent{Of: period}
	}
	return s
}

// periods returns the beginnings of the day and the month in UTC.
func periods(now time.Time) (day, month time.Time) {
	y, m, d := now.UTC().Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC), time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)
}

// scope returns the state of the row at a time.
func (r *fleetRow) scope(now time.Time) ScopeState {
	s := ScopeState{Scope: r.name, Limits: r.Limits, row: r, at: now}
	if r.pause != nil && r.pause.Until.After(now) {
		s.Pause = r.pause
	}
	if r.notBefore.After(now) {
		s.NotBefore = r.notBefore
	}
	day, month := periods(now)
	s.Usage = Usage{
		RequestsLastSecond: r.within(spans[0], now), RequestsLastMinute: r.within(spans[1], now),
		TokensLastMinute: r.within(spans[2], now),
		TokensToday:      r.used.Day.in(day.Format(time.DateOnly)).Tokens,
		TokensThisMonth:  r.used.Month.in(month.Format("2006-01")).Tokens,
	}
	for _, f := range r.used.Workers {
		if f.Until > now.UnixNano() {
			s.Usage.RequestsInFlight += f.Requests
		}
	}
	return s
}
