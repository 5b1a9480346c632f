// Package statedir protects the state folder, .everturn in the working directory, in which Everturn keeps its journal,
// databases, logs and locks.
//
// The working directory may be a cloned, untrusted repository that brings such a folder along. Secure therefore checks
// the folder, or creates it, before the program opens anything in it.
package statedir
