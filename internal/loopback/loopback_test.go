package loopback_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/internal/loopback"
)

func TestAddress(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:7233": true, "localhost:7233": true, "[::1]:7233": true, "localhost": true,
		"127.9.9.9": true, "192.0.2.1:7233": false, "example.com:7233": false, "localhost.example.com:1": false,
		"0.0.0.0:7233": false, "": false,
	} {
		assert.Equal(t, want, loopback.Address(address), address)
	}
}
