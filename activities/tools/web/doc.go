// Package web provides the tool fetch_url, with which a model reads a page of the web. Package netguard refuses
// addresses of this machine and of private networks, both in the URL that the model names and in each redirect. Time,
// redirects and bytes are bounded.
package web
