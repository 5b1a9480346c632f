// Package tape records what models answer, and answers with it again: offline, without a key, and always the same.
package tape
