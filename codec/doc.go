// Package codec encrypts what Everturn gives to Temporal and, as an option, what it writes into its journal.
//
// Keys is a Tink keyset: one primary key encrypts, all keys decrypt. DataConverter and FailureConverter make a Temporal
// client encrypt and decrypt with it; give both to every client and replayer of the namespace. Payloads that are not
// encrypted are read as they are, so encryption can be switched on while turns run.
//
// An encrypted payload names its key and its namespace in its metadata, and both are authenticated. Nothing else is
// needed to decrypt it, so a history in a file can be read as well as one on the server.
//
// Keys reads its file again when it is used, at most every five seconds, and when it meets a key that it does not know.
// A rotation has two steps: add a key everywhere, then make it the primary key.
package codec
