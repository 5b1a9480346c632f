package toolbox

import "time"

// worth is what a session is to those who decide whether it stays. The session's lock guards it.
type worth struct {
	bound   bool   // a call has reached the server: its state is a turn's now
	founder string // the last call that came without counting on any state: later ones count on what it left
	lost    bool   // its connection was lost
	rested  bool   // it ended because nobody used it
	last    time.Time
	timer   *time.Timer // looks whether it is idle; nil: it is kept
}

// use notes that somebody needs the session.
func (s *session) use() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.worth.last = time.Now()
}

// bind notes that a call has reached the server.
func (s *session) bind() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.worth.bound = true
}

// found notes that a call begins anew on the session.
func (s *session) found(call string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.worth.founder = call
}

// holdsState reports whether the server may remember something of a turn in this session, as that call has founded it.
func (s *session) holdsState(founder string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.worth.bound && founder == s.worth.founder
}

// lose notes that the session's connection was lost, which its calls may notice first.
func (s *session) lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.worth.lost = true
}

// isLost reports whether the session's connection was lost.
func (s *session) isLost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.worth.lost
}

// hasRested reports whether the session ended because nobody used it.
func (s *session) hasRested() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.worth.rested
}

// idleSince is when the session was used last; false where it is in use.
func (s *session) idleSince() (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.worth.last, s.users == 0 && !s.retired && !s.ending
}

// startIdling ends the session when nobody has used it for so long; 0 keeps it.
func (s *session) startIdling(after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.worth.last = time.Now()
	if after > 0 && !s.ending {
		s.worth.timer = time.AfterFunc(after, func() { s.restAfter(after) })
	}
}

func (s *session) stopIdling() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.worth.timer != nil {
		s.worth.timer.Stop()
	}
}

// restAfter ends the session if it has been idle for so long, and looks again when it may have been.
func (s *session) restAfter(idle time.Duration) {
	s.mu.Lock()
	left := idle - time.Since(s.worth.last)
	busy := s.users > 0 || left > 0
	if busy && !s.ending {
		s.worth.timer.Reset(max(left, idle/10, time.Millisecond))
	}
	s.mu.Unlock()
	if !busy {
		s.rest()
	}
}

// rest ends a session that nobody uses. One that somebody has begun to use meanwhile stays.
func (s *session) rest() {
	s.mu.Lock()
	free := s.users == 0 && !s.retired && !s.ending
	if free {
		s.retired, s.ending, s.worth.rested = true, true, true
	}
	s.mu.Unlock()
	if !free {
		return
	}
	s.owner.log.Debug("ending a connection that nobody uses", "server", s.owner.id())
	s.owner.rested(s)
	s.end()
}
