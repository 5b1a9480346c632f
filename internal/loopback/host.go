package loopback

import "net"

// Host reports whether a host, a name or an IP address without a port, is this machine.
func Host(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Address reports whether an address is on this machine. The port may be missing.
func Address(address string) bool {
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	return Host(address)
}
