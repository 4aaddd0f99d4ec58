package blob

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// Space is the free and the total space on the disk of a folder, in bytes. Neither includes blocks that are reserved
// for the system.
type Space struct{ Free, Total uint64 }

// The percentages of used space from which a disk is regarded as full, and as nearly full. A large disk has much space
// left at 95%, so a full disk must also have less than fullBelow bytes free.
const (
	FullPercent       = 95
	NearlyFullPercent = 90
	fullBelow         = 10 << 30
)

// SpaceOf returns the space on the disk of the given folders; if they are on several disks, on the one with the least
// free space. Folders that do not exist are left out.
func SpaceOf(folders ...string) (least Space, err error) {
	for _, folder := range folders {
		var disk unix.Statfs_t
		if err := unix.Statfs(folder, &disk); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return least, fmt.Errorf("measure the disk of %s: %w", folder, err)
		}
		size := uint64(disk.Bsize)
		one := Space{Free: disk.Bavail * size, Total: (disk.Blocks - disk.Bfree + disk.Bavail) * size}
		if least.Total == 0 || one.Free < least.Free {
			least = one
		}
	}
	return least, nil
}

// Percent returns the percentage of space that is used, rounded down; 0 if the disk was not measured.
func (s Space) Percent() int {
	if s.Total == 0 {
		return 0
	}
	return int(float64(s.Total-s.Free) / float64(s.Total) * 100)
}

// IsFull reports whether nothing new may be started, because what is running needs the rest of the disk.
func (s Space) IsFull() bool { return s.Percent() >= FullPercent && s.Free < fullBelow }

// IsNearlyFull reports whether the disk will be full soon; it is false once the disk is full.
func (s Space) IsNearlyFull() bool {
	return !s.IsFull() && s.Percent() >= NearlyFullPercent && s.Free < 2*fullBelow
}
