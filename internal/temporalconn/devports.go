package temporalconn

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/everturn/everturn/internal/statedir"
)

// DevPorts has the port that a folder's development server uses because the default one, or that of the Web UI, was
// taken.
type DevPorts struct {
	Frontend int `json:"frontend"`
}

// devPortsName is the name of the file in the state folder that stores DevPorts.
const devPortsName = "ports.json"

// readDevPorts returns the ports that the state folder dir stores. They are zero if it stores none, dir is empty, or
// statedir.Secure did not make it: it may have come with a clone.
func readDevPorts(dir string) (p DevPorts, err error) {
	if dir == "" || !statedir.Made(dir) {
		return DevPorts{}, nil
	}
	file := filepath.Join(dir, devPortsName)
	b, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return DevPorts{}, nil
	case err != nil:
		return DevPorts{}, fmt.Errorf("reading the development server's ports: %w", err)
	}
	if err := json.Unmarshal(b, &p); err != nil || !isPort(p.Frontend) {
		return DevPorts{}, invalid("%s does not name a port: delete it", file)
	}
	return p, nil
}

// Write stores the ports in the state folder dir.
func (p DevPorts) Write(dir string) error {
	b, err := json.Marshal(p)
	if err == nil {
		err = statedir.Replace(filepath.Join(dir, devPortsName), string(b)+"\n")
	}
	if err != nil {
		return fmt.Errorf("storing the development server's ports: %w", err)
	}
	return nil
}

// Address returns the frontend's address, on loopback.
func (p DevPorts) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Frontend)) }

// isPort reports whether n is a valid TCP port.
func isPort(n int) bool { return n > 0 && n < 1<<16 }

// DevPorts returns the ports that the state folder stores. movable reports whether no setting names an address, so that
// a development server may choose its own ports.
func (o Options) DevPorts() (p DevPorts, movable bool, err error) {
	profile, err := o.profile()
	if err != nil || o.Address != "" || profile.Address != "" {
		return DevPorts{}, false, err
	}
	p, err = readDevPorts(o.StateDir)
	return p, err == nil, err
}
