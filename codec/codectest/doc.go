// Package codectest makes keys for tests.
package codectest
