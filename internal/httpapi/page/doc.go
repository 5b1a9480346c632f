// Package page is the web page of everturn serve: sessions, their transcripts as they grow, and the requests that wait
// for a decision. The HTML comes from templates; one ES module follows the events of the session that it shows, and
// sends messages and decisions with the routes of the API. The package reads through package client only.
//
// A browser signs in with a one-time link, for a cookie that holds a token.
package page
