// Package schema checks values against JSON schemas from untrusted sources. It estimates the cost of validation with a
// schema before it validates anything with it, because a hostile schema can take a validator's time without bound, or
// crash its process. A panic of the library becomes an error, no reference outside of the schema is loaded, and sizes
// and depths are bounded.
package schema
