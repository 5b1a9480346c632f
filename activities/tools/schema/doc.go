// Package schema checks values against JSON schemas from untrusted sources. It weighs a schema before it validates
// anything with it, because a schema can be built to take a validator's time without bound, or to crash its process. A
// panic of the library becomes an error, nothing is loaded from elsewhere, and sizes and depths are bounded.
package schema
