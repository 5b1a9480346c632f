// Package develop holds the commands for development and packaging.
package develop
