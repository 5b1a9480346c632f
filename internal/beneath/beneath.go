package beneath

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Identity identifies a file on this machine, under whatever name it is found. The zero value stands for no file.
type Identity struct{ device, inode uint64 }

// IdentityOf returns the identity of the file that info describes, or zero if the system does not report it.
func IdentityOf(info fs.FileInfo) Identity {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Identity{}
	}
	return Identity{uint64(st.Dev), st.Ino} //nolint:unconvert // its type differs between systems
}

// Entry describes an entry of a directory.
type Entry struct {
	Name  string
	Mode  fs.FileMode // the type, and 0o100 if the owner may execute the file
	Size  int64       // bytes
	Links uint64      // number of hard links
	ID    Identity
	// Modified and Changed are the times of the last change of the content and of the inode, in nanoseconds since 1970.
	Modified, Changed int64
}

// Lstat describes an entry of an open directory. It does not follow a symbolic link.
func Lstat(dir *os.File, name string) (Entry, error) {
	var st unix.Stat_t
	if err := retry(func() error {
		return unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	}); err != nil {
		return Entry{}, err
	}
	return entryOf(name, &st), nil
}

// Stat describes an open file.
func Stat(f *os.File) (Entry, error) {
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstat(int(f.Fd()), &st) }); err != nil {
		return Entry{}, err
	}
	return entryOf(f.Name(), &st), nil
}

func entryOf(name string, st *unix.Stat_t) Entry {
	mode := fs.ModeIrregular
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		mode = fs.FileMode(st.Mode & unix.S_IXUSR)
	case unix.S_IFDIR:
		mode = fs.ModeDir
	case unix.S_IFLNK:
		mode = fs.ModeSymlink
	}
	//nolint:unconvert // the types differ between systems
	return Entry{name, mode, st.Size, uint64(st.Nlink), Identity{uint64(st.Dev), uint64(st.Ino)}, st.Mtim.Nano(), st.Ctim.Nano()}
}

// maxLinkBytes bounds the target of a link, as Linux does.
const maxLinkBytes = 4096

// ReadLink returns the target of a symbolic link in a directory. The error is fs.ErrNotExist if the entry does not
// exist, and another one if the entry is not a symbolic link.
func ReadLink(dir *os.File, name string) (string, error) {
	b := make([]byte, maxLinkBytes)
	n := 0
	err := retry(func() (err error) {
		n, err = unix.Readlinkat(int(dir.Fd()), name, b)
		return err
	})
	return string(b[:max(n, 0)]), err
}

// OpenDir opens a subdirectory of an open directory: see Open.
func OpenDir(dir *os.File, name string) (*os.File, error) {
	return Open(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
}

// Open opens an entry of an open directory. It follows no symbolic link, and refuses a directory of another file
// system with EXDEV. name has one part.
func Open(dir *os.File, name string, flags int, mode fs.FileMode) (*os.File, error) {
	fd := 0
	err := retry(func() (err error) {
		fd, err = openAt(int(dir.Fd()), name, flags, uint32(mode.Perm()))
		return err
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// openOnDevice opens an entry of the directory with the file descriptor dir. It follows no symbolic link, and refuses
// a directory of another file system with EXDEV.
func openOnDevice(dir int, name string, flags int, mode uint32) (int, error) {
	fd, err := unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if err != nil {
		return fd, err
	}
	var above, opened unix.Stat_t
	err = errors.Join(unix.Fstat(dir, &above), unix.Fstat(fd, &opened))
	isDir := opened.Mode&unix.S_IFMT == unix.S_IFDIR
	if err == nil && isDir && opened.Dev != above.Dev {
		err = unix.EXDEV
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// retry repeats a system call while signals interrupt it (EINTR), as package os does.
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
