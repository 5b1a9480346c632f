// Package decide holds the commands that list and decide requests, and the dialog that asks for a decision.
package decide
