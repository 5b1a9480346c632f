// Package version has the version of Everturn of which a program was built.
package version
