package fleet

import (
	"fmt"
	"slices"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// The rules of fleet limits. A limit per second or minute holds in every second or minute, wherever it begins (a
// sliding window), so a row records when requests were granted. A request arrives at its provider some time after its
// grant. The windows are longer than a second or a minute by ArrivalSlack or more, so a limit also holds for the
// arrivals as long as these delays differ by less than ArrivalSlack.

// Row is the row of a scope.
type Row struct {
	Scope     string
	Limits    Limits // those that were set
	Used      fleetUsage
	Pause     *Pause    // nil if there was none; it may have ended
	NotBefore time.Time // the end of the pause that the provider asked for; zero if there was none
	effective Limits    // Limits over the defaults
}

// Rows are the rows of scopes, by scope.
type Rows map[string]*Row

// fleetUsage is the JSON in which a row records what was used.
type fleetUsage struct {
	Recent  []usageEntry        `json:"recent,omitempty"`  // the last minute, in order
	Workers map[string]inFlight `json:"workers,omitempty"` // the requests in flight of each worker
	Day     periodTokens        `json:"day,omitzero"`
	Month   periodTokens        `json:"month,omitzero"`
}

// usageEntry is the sum of the requests that were granted from From to To. Times are nanoseconds since 1970.
type usageEntry struct {
	From     int64 `json:"f"`
	To       int64 `json:"t"`
	Requests int64 `json:"n"`
	Tokens   int64 `json:"k"`
}

// inFlight is the number of a worker's requests in flight. It counts until Until, in nanoseconds since 1970: see
// LeaseExpiry.
type inFlight struct {
	Requests int64 `json:"n"`
	Until    int64 `json:"u"`
}

// periodTokens are the tokens of a day, "2006-01-02", or of a month, "2006-01".
type periodTokens struct {
	Period string `json:"of,omitempty"`
	Tokens int64  `json:"k,omitempty"`
}

// A row merges grants that are closer together than fineInterval into one usageEntry, so that it stays small. Entries
// that are older than fineAge are merged into those of coarseInterval.
const (
	fineInterval   = 50 * time.Millisecond
	coarseInterval = time.Second
	fineAge        = 3 * time.Second
)

// ArrivalSlack is the longest time that a worker may take from a grant to the request. After a longer time, the worker
// must request capacity again.
const ArrivalSlack = 150 * time.Millisecond

// span is the window of a limit per second or minute.
type span struct {
	limit  LimitName
	length time.Duration // including the slack
	amount func(usageEntry) int64
}

// spans are the windows; the last one is the longest. Each is longer than a second or a minute by at least
// ArrivalSlack.
var spans = []span{
	{LimitRequestsPerSecond, time.Second + ArrivalSlack, func(u usageEntry) int64 { return u.Requests }},
	{LimitRequestsPerMinute, time.Minute + time.Second, func(u usageEntry) int64 { return u.Requests }},
	{LimitTokensPerMinute, time.Minute + time.Second, func(u usageEntry) int64 { return u.Tokens }},
}

// Refusal says which limit a request would exceed now. Its amounts are requests, tokens, or turn.USD.
type Refusal struct {
	Scope string    `json:"scope,omitempty"` // empty for a limit of a turn, a session or a tenant
	Limit LimitName `json:"limit"`
	Used  int64     `json:"used,omitempty"`
	Max   int64     `json:"max,omitempty"`
	// Needs is the least that the inference may use, for a limit of a turn, a session or a tenant.
	Needs int64 `json:"needs,omitempty"`
	// Retry is the time until the request might fit. It is an estimate, except if the limit is a pause.
	Retry time.Duration `json:"retry"`
	Pause *Pause        `json:"pause,omitempty"`
	// Final means that waiting is pointless: what the limit allows is used up.
	Final bool `json:"final,omitempty"`
}

// String returns a sentence for users: what a request waits for and about how long, or which tokens are used up and
// what to do about it.
func (r Refusal) String() string {
	about := max(r.Retry, time.Second).Round(time.Second)
	waits := "waits for " + DescribeScope(r.Scope) + ": "
	switch r.Limit {
	case LimitTurnTokens, LimitSessionTokens:
		return fmt.Sprintf("%s is %d tokens, of which %d are used, and the inference may use %d", r.Limit, r.Max, r.Used, r.Needs)
	case LimitTurnCost, LimitSessionCost, LimitTenantCostPerDay, LimitTenantCostPerMonth:
		return fmt.Sprintf("%s is %s, of which %s is used, and the inference may use %s", r.Limit, turn.USD(r.Max),
			turn.USD(r.Used), turn.USD(r.Needs))
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

// Lease applies the input of LeaseCapacity to rows that are locked. again means that an earlier run of the
// transaction may have applied it already: then in.Ended is ignored, because tokens must not be given back twice.
func (rows Rows) Lease(in CapacityInput, now time.Time, again bool) CapacityResult {
	out := CapacityResult{At: now, Read: time.Now()}
	for _, r := range rows {
		r.effective = r.Limits.Over(in.Defaults[r.Scope])
		r.prune(now)
		r.setInFlight(in.Worker, in.InFlight[r.Scope], now)
	}
	for _, e := range in.Ended {
		for _, scope := range e.Scopes {
			if r := rows[scope]; r != nil && !again {
				r.settle(e, now)
			}
		}
	}
	for scope, after := range in.RetryAfter {
		if r := rows[scope]; r != nil && now.Add(after).After(r.NotBefore) {
			r.NotBefore = now.Add(after)
		}
	}
	// A request must not overtake an earlier one that waits for the same scope. waiting has the refusals of such
	// earlier requests, by scope.
	waiting := map[string]*Refusal{}
	for _, request := range in.Requests {
		refusal := rows.check(request, now)
		if refusal == nil {
			refusal = earlierRefusal(request, waiting)
		}
		if refusal == nil {
			rows.admit(in.Worker, request, now)
		} else if !refusal.Final && waiting[refusal.Scope] == nil { // a request with a final refusal does not wait
			waiting[refusal.Scope] = refusal
		}
		out.Refusals = append(out.Refusals, refusal)
	}
	return out
}

// earlierRefusal returns the refusal of an earlier request that waits for one of the request's scopes; nil if there is
// none.
func earlierRefusal(request CapacityRequest, waiting map[string]*Refusal) *Refusal {
	for _, scope := range request.Scopes {
		if waiting[scope] != nil {
			return waiting[scope]
		}
	}
	return nil
}

// check returns the refusal of the request by its scopes, or nil if none refuses it. Of several refusals it returns a
// final one, or else the one that lasts longest.
func (rows Rows) check(request CapacityRequest, now time.Time) (worst *Refusal) {
	for _, scope := range request.Scopes {
		if r := rows[scope]; r != nil {
			for _, refusal := range r.refusals(request, now) {
				isWorse := worst == nil || refusal.Final && !worst.Final ||
					refusal.Final == worst.Final && refusal.Retry > worst.Retry
				if isWorse {
					worst = refusal
				}
			}
		}
	}
	return worst
}

// refusals returns a refusal for each pause and limit of the scope that forbids the request now. Their Max is the whole
// limit, even if a background request may use less of it.
func (r *Row) refusals(request CapacityRequest, now time.Time) (out []*Refusal) {
	state := r.State(now)
	if state.Pause != nil {
		out = append(out, &Refusal{Scope: r.Scope, Limit: LimitPause, Retry: state.Pause.Until.Sub(now), Pause: state.Pause})
	}
	if !state.NotBefore.IsZero() {
		out = append(out, &Refusal{Scope: r.Scope, Limit: LimitRetryAfter, Retry: state.NotBefore.Sub(now)})
	}
	for _, s := range spans {
		if refusal := r.checkSpan(s, request, now); refusal != nil {
			out = append(out, refusal)
		}
	}
	if most := r.limitFor(LimitInFlight, request); most > 0 && state.Usage.RequestsInFlight >= most {
		out = append(out, &Refusal{Scope: r.Scope, Limit: LimitInFlight, Used: state.Usage.RequestsInFlight,
			Max: r.effective[LimitInFlight], Retry: time.Second}) // a guess, because a request may end at any time
	}
	day, month := periods(now)
	for _, p := range []struct {
		limit LimitName
		used  int64
		ends  time.Time
	}{
		{LimitTokensPerDay, state.Usage.TokensToday, day.AddDate(0, 0, 1)},
		{LimitTokensPerMonth, state.Usage.TokensThisMonth, month.AddDate(0, 1, 0)},
	} {
		if most := r.effective[p.limit]; most > 0 && p.used+request.Tokens > most {
			out = append(out, &Refusal{Scope: r.Scope, Limit: p.limit, Used: p.used, Max: most, Retry: p.ends.Sub(now),
				Final: true})
		}
	}
	return out
}

// limitFor returns the value of a limit for the request; 0 means no limit. For a background request it is lower by the
// percentage of LimitReserve, but at least 1.
func (r *Row) limitFor(limit LimitName, request CapacityRequest) int64 {
	most := r.effective[limit]
	if most > 0 && request.Background {
		most = max(most*(100-r.effective[LimitReserve])/100, 1)
	}
	return most
}

// checkSpan returns a refusal if the request exceeds a limit per second or minute, and nil otherwise. A request that
// is larger than the whole limit is granted as soon as the window is empty; otherwise it could never be sent. The
// refusal's Retry is when enough of the oldest entries have left the window.
func (r *Row) checkSpan(s span, request CapacityRequest, now time.Time) *Refusal {
	most, wants := r.limitFor(s.limit, request), s.amount(usageEntry{Requests: 1, Tokens: request.Tokens})
	used := r.usedWithin(s, now)
	if most == 0 || used == 0 || used+wants <= most {
		return nil
	}
	refusal := &Refusal{Scope: r.Scope, Limit: s.limit, Used: used, Max: r.effective[s.limit]}
	for _, u := range r.Used.Recent {
		if n := s.amount(u); u.To > now.Add(-s.length).UnixNano() && n > 0 {
			used -= n
			refusal.Retry = time.Unix(0, u.To).Add(s.length).Sub(now)
			if used+wants <= most {
				break
			}
		}
	}
	return refusal
}

// usedWithin returns what was used in the window that ends now: requests or tokens.
func (r *Row) usedWithin(s span, now time.Time) (n int64) {
	for _, u := range r.Used.Recent {
		if u.To > now.Add(-s.length).UnixNano() {
			n += s.amount(u)
		}
	}
	return n
}

// admit counts a request as sent, in all its scopes, with its estimated tokens and as one of the worker's requests in
// flight.
func (rows Rows) admit(worker string, request CapacityRequest, now time.Time) {
	for _, scope := range request.Scopes {
		if r := rows[scope]; r != nil {
			r.count(1, request.Tokens, now)
			r.setInFlight(worker, r.Used.Workers[worker].Requests+1, now)
		}
	}
}

// count adds requests and tokens to what is used now, today and this month.
func (r *Row) count(requests, tokens int64, now time.Time) {
	at, recent := now.UnixNano(), r.Used.Recent
	if n := len(recent); n > 0 && at-recent[n-1].From < int64(fineInterval) {
		last := &recent[n-1] // max: the database's clock may go back
		last.To, last.Requests, last.Tokens = max(at, last.To), last.Requests+requests, last.Tokens+tokens
	} else {
		r.Used.Recent = append(recent, usageEntry{at, at, requests, tokens})
	}
	r.Used.Day.Tokens += tokens
	r.Used.Month.Tokens += tokens
}

// settle corrects the estimated tokens of a request that has ended to those that it used. Tokens above the estimate
// count as used now, because the window of the grant may have no room for them. Tokens below it are given back where
// the estimate was counted: to the entry of the grant, and to the day and the month if they are still the same.
func (r *Row) settle(e EndedRequest, now time.Time) {
	difference := e.Used - e.Reserved
	if difference > 0 {
		r.count(0, difference, now)
		return
	}
	at := e.At.UnixNano()
	i := slices.IndexFunc(r.Used.Recent, func(u usageEntry) bool { return u.From <= at && at <= u.To })
	if i >= 0 {
		r.Used.Recent[i].Tokens = max(r.Used.Recent[i].Tokens+difference, 0)
	}
	day, month := periods(now)
	if !e.At.Before(day) {
		r.Used.Day.Tokens = max(r.Used.Day.Tokens+difference, 0)
	}
	if !e.At.Before(month) {
		r.Used.Month.Tokens = max(r.Used.Month.Tokens+difference, 0)
	}
}

// setInFlight records the number of a worker's requests in flight, until LeaseExpiry from now.
func (r *Row) setInFlight(worker string, requests int64, now time.Time) {
	if requests == 0 {
		delete(r.Used.Workers, worker)
		return
	}
	if r.Used.Workers == nil {
		r.Used.Workers = map[string]inFlight{}
	}
	r.Used.Workers[worker] = inFlight{requests, now.Add(LeaseExpiry).UnixNano()}
}

// prune removes entries, leases and periods that no longer count, and merges entries that are older than fineAge.
func (r *Row) prune(now time.Time) {
	var kept []usageEntry
	for _, u := range r.Used.Recent {
		n := len(kept)
		switch {
		case u.To <= now.Add(-spans[len(spans)-1].length).UnixNano(): // it has left the longest window
		case n > 0 && u.To < now.Add(-fineAge).UnixNano() && u.To-kept[n-1].From < int64(coarseInterval):
			last := &kept[n-1]
			last.To, last.Requests, last.Tokens = u.To, last.Requests+u.Requests, last.Tokens+u.Tokens
		default:
			kept = append(kept, u)
		}
	}
	r.Used.Recent = kept
	for worker, f := range r.Used.Workers {
		if f.Until <= now.UnixNano() {
			delete(r.Used.Workers, worker)
		}
	}
	day, month := periods(now)
	r.Used.Day, r.Used.Month = r.Used.Day.in(day.Format(time.DateOnly)), r.Used.Month.in(month.Format("2006-01"))
}

// in returns the tokens of a period: s, or none if s is of another period.
func (s periodTokens) in(period string) periodTokens {
	if s.Period != period {
		return periodTokens{Period: period}
	}
	return s
}

// periods returns when the current day and the current month began, in UTC.
func periods(now time.Time) (day, month time.Time) {
	y, m, d := now.UTC().Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC), time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)
}

// State returns the row as readers see it at a time: without pauses, leases and periods that have ended.
func (r *Row) State(now time.Time) ScopeState {
	s := ScopeState{Scope: r.Scope, Limits: r.Limits, row: r, at: now}
	if r.Pause != nil && r.Pause.Until.After(now) {
		s.Pause = r.Pause
	}
	if r.NotBefore.After(now) {
		s.NotBefore = r.NotBefore
	}
	day, month := periods(now)
	s.Usage = Usage{
		RequestsLastSecond: r.usedWithin(spans[0], now), RequestsLastMinute: r.usedWithin(spans[1], now),
		TokensLastMinute: r.usedWithin(spans[2], now),
		TokensToday:      r.Used.Day.in(day.Format(time.DateOnly)).Tokens,
		TokensThisMonth:  r.Used.Month.in(month.Format("2006-01")).Tokens,
	}
	for _, f := range r.Used.Workers {
		if f.Until > now.UnixNano() {
			s.Usage.RequestsInFlight += f.Requests
		}
	}
	return s
}
