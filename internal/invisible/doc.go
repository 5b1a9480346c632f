// Package invisible identifies characters that a screen does not show. The redactor ignores them when it looks for
// secrets, and approvals show them escaped.
package invisible
