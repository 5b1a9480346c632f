package toolbox

import "time"

// worth holds what decides whether a session is kept. The session's lock guards it.
type worth struct {
	bound   bool   // a call has reached the server, so its state belongs to a turn
	founder string // the last call that began without expecting server state; later calls rely on the state since then
	lost    bool   // its connection was lost
	rested  bool   // it ended because it was idle
	last    time.Time
	timer   *time.Timer // checks whether the session is idle; nil: the session is kept
}

// use records that the session is needed now.
func (s *session) use() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.worth.last = time.Now()
}

// bind records that a call has reached the server.
func (s *session) bind() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.worth.bound = true
}

// found records that call starts on the session without expecting any state.
func (s *session) found(call string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.worth.founder = call
}

// holdsState reports whether the server may remember state of a turn in this session since the call founder.
func (s *session) holdsState(founder string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.worth.bound && founder == s.worth.founder
}

// lose records that the session's connection was lost. A call may notice the loss before the session's watcher does.
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

// hasRested reports whether the session ended because it was idle.
func (s *session) hasRested() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.worth.rested
}

// idleSince returns when the session was last used; false if it is in use or ending.
func (s *session) idleSince() (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.worth.last, s.users == 0 && !s.retired && !s.ending
}

// startIdling ends the session once it has been idle for after; 0 keeps it.
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

// restAfter ends the session if it has been idle for that long. Otherwise it schedules the next check.
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

// rest ends an idle session. It does nothing if a call has entered the session meanwhile.
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
