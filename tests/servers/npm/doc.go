// Package npm installs what tests need from the npm registry: third-party MCP servers, the protocol's official
// conformance suite, and a Node.js that is new enough for both.
//
// The versions are those of package-lock.json. They are installed once for each state of that file, into the user's
// cache folder, without running any package's scripts. To take newer ones, change package.json and run
//
//	npm install --package-lock-only --ignore-scripts
//
// in this folder. The lock file must name no registry: npm has the option omit-lockfile-registry-resolved for that.
package npm
