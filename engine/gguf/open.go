package gguf

import (
	"fmt"
	"os"
)

// Open reads a file: mapped where the system can, else read into memory. Errors name the path.
func Open(path string) (*File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() // a mapping outlives it
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	if info.Size() < int64(len(magic)) || info.Size() != int64(int(info.Size())) {
		return nil, fmt.Errorf("%s: %d bytes: too short or too long for a GGUF file", path, info.Size())
	}
	data, unmap, err := load(file, int(info.Size()))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f, err := Parse(data)
	if err != nil {
		unmap()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f.unmap = unmap
	return f, nil
}
