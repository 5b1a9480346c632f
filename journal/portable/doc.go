// Package portable writes a session as JSON lines and reads it back into a journal. Line is the format.
//
// An import trusts nothing that a file says about permission: see Imported.
package portable
