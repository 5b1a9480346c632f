package config

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEncryptionSettingsThatContradictEachOther(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"encryption.keys":          func(c *Config) { c.Encryption.KeyFile, c.Encryption.Keys = "a", "b" },
		"encryption.journal":       func(c *Config) { c.Encryption.Journal = true },
		"codec_server.origin":      func(c *Config) { c.CodecServer.Origin = "https://ui.example.com/" },
		"codec_server.oidc_issuer": func(c *Config) { c.CodecServer.OIDCIssuer = "https://login.example.com" },
	} {
		c := Default()
		change(&c)
		var problems *Error
		require.ErrorAs(t, c.Validate(), &problems, want)
		require.Len(t, problems.Problems, 1, want)
		assert.Equal(t, want, problems.Problems[0].Key)
	}
}
