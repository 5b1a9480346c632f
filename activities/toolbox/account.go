package toolbox

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// account is the operating-system account that a server's process runs under.
type account struct {
	user.User
	uid, gid uint32
}

// accountOf looks up the account that the operator named; nil if there is none.
func accountOf(s Server) (*account, error) {
	if s.User == "" {
		return nil, nil
	}
	if uid := os.Geteuid(); uid != 0 {
		return nil, fmt.Errorf("MCP server %q: user = %q needs a worker that runs as root; this one runs as user %d: "+
			"remove the key, or run the server elsewhere and set its URL", s.ID, s.User, uid)
	}
	u, err := user.Lookup(s.User)
	if err != nil {
		u, err = user.LookupId(s.User)
	}
	if err != nil {
		return nil, fmt.Errorf("MCP server %q: user = %q: this machine has no such account", s.ID, s.User)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err, err2); err != nil {
		return nil, fmt.Errorf("MCP server %q: user = %q: %w", s.ID, s.User, err)
	}
	return &account{User: *u, uid: uint32(uid), gid: uint32(gid)}, nil
}

// credential returns the account's user and group. It has no supplementary groups, because this program's groups are
// not the server's.
func (a *account) credential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &syscall.Credential{Uid: a.uid, Gid: a.gid}
}
