// Package invisible knows which characters a screen does not show. The redactor looks for secrets in text as it is shown,
// and approvals write such characters out.
package invisible
