package trust

import (
	"fmt"
	"io"
	"os"
)

// The files of a node's directory, and of an authority's.
const (
	FileCA     = "ca.pem"
	FileCert   = "node.pem"
	FileKey    = "node-key.pem"
	FileSecret = "secret.key"
	FileCAKey  = "ca-key.pem"
)

// maxFile is more bytes than any of them has.
const maxFile = 1 << 20

// readPublic reads a whole file.
func readPublic(path string) ([]byte, error) {
	data, _, err := read(path)
	return data, err
}

// readPrivate reads a file that the world must not know. The group may read, because that is how orchestrators hand secrets
// to a process that is not root; whoever else may read, or write, is refused.
func readPrivate(path string) ([]byte, error) {
	data, mode, err := read(path)
	if err != nil {
		return nil, err
	}
	if mode.Perm()&0o027 != 0 {
		return nil, fmt.Errorf("%s has mode %04o: others can read it, or more than its owner can write it; chmod 600 it, and replace it if others have had it",
			path, mode.Perm())
	}
	return data, nil
}

// read takes mode and bytes of the same open file, so that it cannot be exchanged in between.
func read(path string) ([]byte, os.FileMode, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is no regular file", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", path, err)
	}
	if len(data) > maxFile {
		return nil, 0, fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return data, info.Mode(), nil
}

// writeNew writes a file that is not there yet, and sees it onto the disk.
func writeNew(path string, data []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
