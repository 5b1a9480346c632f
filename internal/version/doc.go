// Package version tells which version of Everturn a program is.
package version
