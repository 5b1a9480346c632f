// Package jsonbound bounds the nesting and the number of values of a JSON text while it is read, before it is decoded.
package jsonbound
