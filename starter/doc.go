// Command everturn is Everturn's command line: it starts turns, follows them, and shows what the journal keeps of them.
package main
