//go:build !linux

package beneath

// openAt opens an entry of the directory with the file descriptor dir. It follows no symbolic link and enters no other
// file system.
func openAt(dir int, name string, flags int, mode uint32) (int, error) {
	return openOnDevice(dir, name, flags, mode)
}
