package fleet

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/everturn/everturn/tests/loopback"
)

// state is what one start of a fleet leaves to the next one: the file fleet.json.
type state struct {
	Ports
	// Internal are ports of Temporal's services: frontend (membership), history, matching and worker (gRPC and
	// membership each). They are kept, because the server finds itself among its members by its address.
	Internal         [7]int
	TemporalPassword string
	JournalPassword  string
}

// load reads the state of dir or creates it.
func load(dir string, want Ports) (*state, error) {
	if err := os.MkdirAll(dir, 0o711); err != nil { // Postgres may run as another user
		return nil, err
	}
	s, path := &state{}, filepath.Join(dir, "fleet.json")
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.TemporalPassword, s.JournalPassword = rand.Text(), rand.Text()
	case err != nil:
		return nil, err
	default:
		if err := json.Unmarshal(b, s); err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
	}
	if err := s.choose(want); err != nil {
		return nil, err
	}
	if b, err = json.MarshalIndent(s, "", "  "); err != nil {
		return nil, err
	}
	return s, os.WriteFile(path, b, 0o600)
}

// choose sets the ports that are wanted, and free ones for those that are neither wanted nor known.
func (s *state) choose(want Ports) (err error) {
	for wanted, port := range map[*int]*int{
		&want.Postgres: &s.Postgres, &want.Temporal: &s.Temporal, &want.UI: &s.UI,
	} {
		if *wanted != 0 {
			*port = *wanted
		}
	}
	ports := []*int{&s.Postgres, &s.Temporal, &s.UI}
	for i := range s.Internal {
		ports = append(ports, &s.Internal[i])
	}
	for _, port := range ports {
		if *port == 0 {
			if *port, err = loopback.Port(); err != nil {
				return err
			}
		}
	}
	return nil
}
