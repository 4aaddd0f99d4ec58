package blob

import (
	"errors"
	"os"
)

// Unnamed returns a new file in a folder, for data that is too large for memory; "" means the system's folder. The
// file has no name, so it disappears when it is closed or the process crashes. The caller closes it.
func Unnamed(dir string) (*os.File, error) {
	file, err := os.CreateTemp(dir, "wending-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
