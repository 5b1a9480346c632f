package loopback

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
)

// lowest and highest bound the ports that are handed out. highest applies if the machine does not say which ports it
// hands out itself. 32768 is Linux's own default, see ip_local_port_range in its ip-sysctl documentation; other systems
// begin later.
const (
	lowest  = 15000
	highest = 32767
)

// Nobody is an address without a listener: TCP's port 1 is for privileged programs, and its service is not in use.
const Nobody = "127.0.0.1:1"

// Address returns 127.0.0.1 with a Port.
func Address() (string, error) {
	port, err := Port()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), err
}

// Port returns a port of 127.0.0.1 without a listener, and none on the port of a Web UI, 1000 above. It is not one of
// the ports that the system hands out to programs that ask for any port: before the port is used, and while it is
// closed in the middle of a test, other tests connect and listen many times.
func Port() (int, error) {
	last := beforeEphemeral()
	for range 100 {
		port := lowest + rand.IntN(last-lowest+1) //nolint:gosec // chance is enough
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue // taken
		}
		ui, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port+1000)))
		if err != nil {
			_ = l.Close()
			continue
		}
		return port, errors.Join(l.Close(), ui.Close())
	}
	return 0, errors.New("looking for a free port: 100 were taken")
}

// beforeEphemeral returns the last port before those that the system hands out.
func beforeEphemeral() int {
	var from, to int
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return highest
	}
	if _, err := fmt.Sscan(string(text), &from, &to); err != nil || from-1 <= lowest {
		return highest
	}
	return from - 1
}
