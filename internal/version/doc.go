// Package version has the version of this build of Everturn.
package version
