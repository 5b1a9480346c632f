// Package npm installs what tests need from the npm registry: MCP servers that nobody here wrote, the official conformance
// suite of the protocol, and a Node.js that is new enough for both.
//
// The versions are those of package-lock.json. They are installed once for each state of that file, into the user's cache
// folder, without running any script of any package. To take newer ones, change package.json and run
//
//	npm install --package-lock-only --ignore-scripts
//
// in this folder. The lock file must name no registry: npm has the option omit-lockfile-registry-resolved for that.
package npm
