// Package schema checks values against JSON schemas that strangers wrote. A schema is weighed before anything is validated
// with it, because one can be made that takes a validator's time without bound, or its whole process; the library's panics are
// errors; nothing is ever loaded from elsewhere; and sizes and depths are bounded.
package schema
