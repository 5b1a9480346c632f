package loopback_test

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/tests/loopback"
)

func TestPortsAreOutsideTheEphemeralRange(t *testing.T) {
	for range 50 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		address, err := loopback.Address()
		require.NoError(t, err)
		_, theirs, _ := strings.Cut(l.Addr().String(), ":")
		_, ours, _ := strings.Cut(address, ":")
		assert.Less(t, ours, theirs, "five digits each")
		require.NoError(t, l.Close())
		l, err = net.Listen("tcp", address)
		require.NoError(t, err, "nobody listens there")
		require.NoError(t, l.Close())
	}
	_, err := net.Dial("tcp", loopback.Nobody)
	assert.Error(t, err)
}
