// Package web provides the tool fetch_url, with which a model reads a page of the web. Package netguard keeps it away
// from this machine and from private networks, for the URL that the model names and for each one that it is redirected
// to. Time, redirects and bytes are bounded.
package web
