// Package deploy has the tests of docker-compose.yml and of the folder deploy: they agree with the code. It is a module
// of its own, because the parsers of compose files and of Kubernetes manifests require much that nothing else needs.
package deploy
