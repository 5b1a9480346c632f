package statedir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Name is the name of the state folder.
const Name = ".everturn"

// Secure creates the folder dir with mode 0700 if it does not exist. It removes the permissions of group and others
// from an existing folder and from the files directly in it. It returns an error if dir or anything directly in it is a
// symbolic link, a hard link or another special file, if dir belongs to another user, or if dir is not empty and was
// not made by Secure: a folder that comes with a clone can hold grants and running turns. On a file system that cannot
// store modes, the mount options decide which users can read the folder.
func Secure(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return fmt.Errorf("creating the parent of the state folder: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("creating the state folder: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("checking the state folder: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is a link or not a folder: Everturn does not write through links; delete it", dir)
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; int(owner) != os.Geteuid() {
		return fmt.Errorf("the folder %s belongs to user %d and this is user %d: run as that user, change the owner with "+
			"chown -R, or delete it", dir, owner, os.Geteuid())
	}
	removeOthersPermissions(dir, info)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("reading the state folder: %w", err)
	}
	holdsState := false // dir contains more than .gitignore and the file with its origin
	for _, e := range entries {
		holdsState = holdsState || e.Name() != ".gitignore" && !strings.HasPrefix(e.Name(), originName)
		if err := secureEntry(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return checkOrigin(dir, filepath.Join(dir, originName), holdsState)
}

// sqliteHeader begins every SQLite database that is not empty (https://www.sqlite.org/fileformat.html).
const sqliteHeader = "SQLite format 3\x00"

// SecureFile creates the file path with mode 0600 if it does not exist. Like Secure for a folder, it returns an error
// if the file is a SQLite database that SecureFile did not make. The file path + ".origin" identifies it.
func SecureFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("%w: choose a folder that can be created", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("%w: make the file and its folder writable, or choose another path", err)
	}
	header := make([]byte, len(sqliteHeader))
	n, _ := io.ReadFull(f, header) // a directory or a short file has no header
	if err := f.Close(); err != nil {
		return err
	}
	if n > 0 && string(header[:n]) != sqliteHeader {
		return nil // not a database: opening it reports the error
	}
	if err := secureEntry(path); err != nil {
		return err
	}
	return checkOrigin(path, path+"."+originName, n > 0)
}

// originName is the name of the file that identifies a state folder by the folder's inode and birth time. A folder
// that was cloned, unpacked or copied has different ones; a folder that was moved within its file system keeps them.
const originName = "origin"

// checkOrigin returns an error if path holds state and file does not contain the identity of path. If path holds no
// state yet, checkOrigin writes its identity to file.
func checkOrigin(path, file string, holdsState bool) error {
	identity, err := fileIdentity(path)
	if err != nil {
		return fmt.Errorf("checking the origin of %s: %w", path, err)
	}
	recorded, err := os.ReadFile(file)
	switch {
	case err == nil && strings.TrimSpace(string(recorded)) == identity:
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("reading the origin of %s: %w", path, err)
	case holdsState:
		return fmt.Errorf("%s was not made here: it may contain the grants and running turns of another author. Delete it, "+
			"or, if you copied it yourself, trust it with: echo %s >%s", path, identity, file)
	}
	if err := Replace(file, identity+"\n"); err != nil {
		return fmt.Errorf("writing the origin of %s: %w", path, err)
	}
	return nil
}

// Replace writes a file with mode 0600. It replaces an existing file atomically: another process that reads it gets
// either the old content or the new.
func Replace(file, content string) error {
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+"-*")
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// secureEntry checks and secures a file or folder in the state folder. It returns an error for links and special
// files, and removes the permissions of group and others.
func secureEntry(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // another process has just removed it
		return nil
	case err != nil:
		return fmt.Errorf("checking the state folder: %w", err)
	case !info.IsDir() && !info.Mode().IsRegular():
		return fmt.Errorf("%s is a link or not a file: Everturn does not write through links; delete it", path)
	case !info.IsDir() && info.Sys().(*syscall.Stat_t).Nlink > 1:
		return fmt.Errorf("%s is a hard link to another file: Everturn does not write through links; delete it", path)
	}
	removeOthersPermissions(path, info)
	return nil
}

// removeOthersPermissions removes the permissions of group and others. It ignores errors: some file systems cannot
// change modes, and a file that this user may not change is reported when it is opened.
func removeOthersPermissions(path string, info fs.FileInfo) {
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		_ = os.Chmod(path, mode&^0o077)
	}
}
