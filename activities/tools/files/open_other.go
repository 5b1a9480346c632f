//go:build !linux

package files

// openAt opens an entry of a directory. It follows no link, and enters no other file system.
func openAt(dir int, name string, flags int, mode uint32) (int, error) {
	return openOnDevice(dir, name, flags, mode)
}
