package postgres

// Connect gives tests the journal.Database of a journal.
var Connect = connect
