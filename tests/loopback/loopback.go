package loopback

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
)

// lowest and highest bound the ports that are handed out, the highest where the machine does not say which ones it hands
// out itself. 32768 is Linux's own default, see ip_local_port_range in its ip-sysctl documentation; others begin later.
const (
	lowest  = 15000
	highest = 32767
)

// Nobody is an address where nobody listens: TCP's port 1 is for privileged programs, and for one that nobody runs.
const Nobody = "127.0.0.1:1"

// Address is 127.0.0.1 with a Port.
func Address() (string, error) {
	port, err := Port()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), err
}

// Port is a port of 127.0.0.1 where nobody listens. It is not one of those that the system hands out to whoever asks for
// any: before it is used, and while it is closed in the middle of a test, others beside it connect and listen many times.
func Port() (int, error) {
	last := beforeEphemeral()
	for range 100 {
		port := lowest + rand.IntN(last-lowest+1) //nolint:gosec // chance is enough
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue // taken
		}
		return port, l.Close()
	}
	return 0, errors.New("looking for a free port: 100 were taken")
}

// beforeEphemeral is the last port before those that the system hands out.
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
