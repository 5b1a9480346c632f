package config

import "net/url"

// Encryption names the keys. Without keys nothing is encrypted.
type Encryption struct {
	// The file of the keys, relative to the working directory: see `everturn keys`. Every worker and client of the
	// namespace needs the same keys. A process reads the file again within seconds after a change.
	KeyFile string `toml:"key_file"`
	// The content of such a file, instead of key_file, for instance "${EVERTURN_KEYS}". It is read once, at the start.
	Keys Secret `toml:"keys"`
	// Decrypt what Temporal keeps, and encrypt nothing there: the first step of switching encryption on or off while turns
	// run.
	DecryptOnly bool `toml:"decrypt_only"`
	// Encrypt the content of the journal, too. The journal must be new, or a copy: see `everturn journal copy`.
	Journal bool `toml:"journal"`
}

// On reports whether there are keys.
func (e Encryption) On() bool { return e.KeyFile != "" || e.Keys != "" }

// CodecServer configures who may decrypt over HTTP.
type CodecServer struct {
	// The Web UI's origin, for instance "https://temporal.example.com": the only one whose pages may read the answers.
	Origin string `toml:"origin"`
	// A bearer token that may decrypt, for instance "${CODEC_TOKEN}".
	Token Secret `toml:"token"`
	// The issuer of OpenID Connect ID tokens that may decrypt.
	OIDCIssuer string `toml:"oidc_issuer"`
	// The audience of these ID tokens: the Web UI's client ID.
	OIDCAudience string `toml:"oidc_audience"`
	// Who of the issuer's users may decrypt: verified email addresses, *@example.com, subjects, or * for all.
	OIDCAllow []string `toml:"oidc_allow"`
}

// encryption checks [encryption].
func (v *validator) encryption(e Encryption) {
	switch {
	case e.KeyFile != "" && e.Keys != "":
		v.add("encryption.keys", "is set besides encryption.key_file; set one of them")
	case e.Journal && !e.On():
		v.add("encryption.journal", "needs keys; set encryption.key_file (`everturn keys new` makes the file)")
	}
}

// codecServer checks [codec_server].
func (v *validator) codecServer(c CodecServer) {
	v.address("codec_server.origin", c.Origin)
	v.address("codec_server.oidc_issuer", c.OIDCIssuer)
	u, err := url.Parse(c.Origin)
	isURL := err == nil && u.Host != "" // otherwise it is empty, or address has reported it
	if isURL && c.Origin != u.Scheme+"://"+u.Host {
		v.add("codec_server.origin", "has a path; an origin is only a scheme and a host, and ends without a slash")
	}
	if c.OIDCIssuer != "" && (c.OIDCAudience == "" || len(c.OIDCAllow) == 0) {
		v.add("codec_server.oidc_issuer", "needs oidc_audience and oidc_allow, or every user of the issuer could decrypt")
	}
}
