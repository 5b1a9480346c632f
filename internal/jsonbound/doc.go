// Package jsonbound checks the nesting and the number of values of a JSON text while the text is read, before it is
// decoded.
package jsonbound
