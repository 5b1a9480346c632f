package config

import "github.com/everturn/everturn/internal/loopback"

// HTTP configures `everturn serve`.
type HTTP struct {
	// host:port to listen on. Beyond this machine, requests need TLS: set tls_cert, or plain if a proxy in front of the
	// server has it.
	Listen string `toml:"listen" default:"127.0.0.1:7280" required:"true" maxbytes:"300"`
	// The address that users know, if it is another one: "https://agents.example.com". Requests that name another host are
	// refused.
	PublicURL string `toml:"public_url" maxbytes:"300" example:"https://agents.example.com"`
	// Origins of other pages that may send requests, such as "https://app.example.com".
	AllowedOrigins []string `toml:"allowed_origins" maxbytes:"300" example:"https://app.example.com"`
	// The file of the TLS certificate, PEM. It is read again when it changes.
	TLSCert string `toml:"tls_cert" maxbytes:"4096"`
	// The file of the certificate's key, PEM.
	TLSKey string `toml:"tls_key" maxbytes:"4096"`
	// Listen without TLS on an address that other machines reach.
	Plain bool `toml:"plain"`
	// Maximum number of requests per second of each principal; twice as many may come at once.
	RequestsPerSecond int `toml:"requests_per_second" default:"50" min:"1" max:"100000"`
	// Maximum number of streams that each principal has open.
	Streams int `toml:"streams" default:"100" min:"1" max:"100000"`
}

// http checks [http].
func (v *validator) http(h HTTP) {
	if (h.TLSCert == "") != (h.TLSKey == "") {
		v.add("http.tls_key", "needs http.tls_cert, and the other way around")
	}
	if h.TLSCert == "" && !h.Plain && !loopback.Address(h.Listen) {
		v.add("http.listen", "is an address that other machines reach, and tokens must not travel in plain text: set "+
			"http.tls_cert, or http.plain = true if a proxy in front of the server has the certificate")
	}
	v.address("http.public_url", h.PublicURL)
	for _, origin := range h.AllowedOrigins {
		v.address("http.allowed_origins", origin)
	}
}
