// Package catalogue keeps the catalogues of tool servers and decides which of their tools turns may see.
//
// Tools are approved by their hashes. A catalogue becomes current as soon as its server publishes it; tools that are
// not approved are quarantined and not offered to turns. See Review.
package catalogue
