package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	mebibyte = int64(1) << 20
	// smallestVolume is the minimum of mkfs.btrfs, rounded up.
	smallestVolume = 128 * mebibyte
	// largestVolume prevents an overflow of 64 bits. The files are sparse, so a volume may be larger than the disk.
	largestVolume = int64(1) << 40
)

// usableID matches names of files that are not hidden. The provisioner names a volume pvc-UID, with the UID of its claim.
var usableID = regexp.MustCompile(`^[A-Za-z0-9][-_.A-Za-z0-9]{0,199}$`)

// volumeFiles is the folder of one node's volumes. Each volume is a file that contains a file system and has the volume's
// id as its name.
//
// A volume is created under a hidden name and renamed when complete, so a crash leaves no partial volume.
type volumeFiles struct {
	root string
}

// openVolumeFiles creates the folder if needed, and removes the partial volumes of an earlier run.
func openVolumeFiles(root string) (*volumeFiles, error) {
	if !filepath.IsAbs(root) {
		return nil, fmt.Errorf("an absolute path is required, got %q", root)
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, err
	}
	// isAttached compares paths with those that the kernel reports, which contain no symbolic links.
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		if err := os.Remove(filepath.Join(root, entry.Name())); err != nil {
			return nil, err
		}
	}
	return &volumeFiles{root: root}, nil
}

func (f *volumeFiles) path(id string) string {
	return filepath.Join(f.root, id)
}

// size returns the size of a volume in bytes. Its error has the code NotFound if the volume does not exist.
func (f *volumeFiles) size(id string) (int64, error) {
	if !usableID.MatchString(id) {
		return 0, status.Errorf(codes.NotFound, "volume %q does not exist", id)
	}
	info, err := os.Stat(f.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, status.Errorf(codes.NotFound, "volume %q does not exist", id)
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// create creates a volume with an empty file system.
func (f *volumeFiles) create(ctx context.Context, id string, size int64) error {
	hidden := f.path("." + id)
	if err := createSparse(hidden, size); err != nil {
		return err
	}
	// One copy of data and metadata is enough: two copies would be on the same disk.
	if err := command(ctx, "mkfs.btrfs", "--quiet", "--data", "single", "--metadata", "single", hidden); err != nil {
		return err
	}
	return os.Rename(hidden, f.path(id))
}

func createSparse(path string, size int64) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(file.Truncate(size), file.Close())
}

// grow grows a volume, but not its file system.
func (f *volumeFiles) grow(id string, size int64) error {
	return os.Truncate(f.path(id), size)
}

// remove removes a volume if it exists. The volume must not be attached.
func (f *volumeFiles) remove(id string) error {
	err := os.Remove(f.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// isAttached reports whether a loop device uses the volume's file.
func (f *volumeFiles) isAttached(id string) (bool, error) {
	names, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return false, err
	}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			continue // the device was detached after the Glob
		}
		if strings.TrimSuffix(string(content), "\n") == f.path(id) {
			return true, nil
		}
	}
	return false, nil
}

// command runs a program. Its error contains the program's output.
func command(ctx context.Context, program string, arguments ...string) error {
	output, err := exec.CommandContext(ctx, program, arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(arguments, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}
