package loopback

import "net"

// Host reports whether host, a name or an IP address without a port, is localhost or a loopback address.
func Host(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Address reports whether address, a host with or without a port, is localhost or a loopback address.
func Address(address string) bool {
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	return Host(address)
}
