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
	// smallestVolume is what mkfs.btrfs needs, rounded up.
	smallestVolume = 128 * mebibyte
	// largestVolume keeps the sums within 64 bits. The files are sparse: it need not fit on the disk.
	largestVolume = int64(1) << 40
)

// usableID is what can be a file's name and is not hidden. The provisioner's are pvc- and the claim's UID.
var usableID = regexp.MustCompile(`^[A-Za-z0-9][-_.A-Za-z0-9]{0,199}$`)

// volumeFiles is the folder of one node's volumes: for each a file, named after the volume, with a filesystem in it.
//
// A file in it is a whole volume. One that is being made is hidden, and gets its name at the end: who is killed in the
// middle leaves nothing that is taken for a volume.
type volumeFiles struct {
	root string
}

// openVolumeFiles makes the folder, and removes what an earlier run has not finished.
func openVolumeFiles(root string) (*volumeFiles, error) {
	if !filepath.IsAbs(root) {
		return nil, fmt.Errorf("an absolute path is required, got %q", root)
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, err
	}
	// As the kernel says it of a loop device.
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

// size tells how large a volume is, in bytes.
//
// It fails with NotFound where there is no such volume, which no volume of an unusable name can be.
func (f *volumeFiles) size(id string) (int64, error) {
	if !usableID.MatchString(id) {
		return 0, status.Errorf(codes.NotFound, "there is no volume %q", id)
	}
	info, err := os.Stat(f.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, status.Errorf(codes.NotFound, "there is no volume %q", id)
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// make makes a volume with an empty filesystem.
func (f *volumeFiles) make(ctx context.Context, id string, size int64) error {
	hidden := f.path("." + id)
	if err := makeSparse(hidden, size); err != nil {
		return err
	}
	// Everything once: the disk below is as good as its copies would be.
	if err := command(ctx, "mkfs.btrfs", "--quiet", "--data", "single", "--metadata", "single", hidden); err != nil {
		return err
	}
	return os.Rename(hidden, f.path(id))
}

func makeSparse(path string, size int64) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(file.Truncate(size), file.Close())
}

// grow makes a volume larger; its filesystem stays as it is.
func (f *volumeFiles) grow(id string, size int64) error {
	return os.Truncate(f.path(id), size)
}

// remove removes a volume, or none where there is none. It must not be attached.
func (f *volumeFiles) remove(id string) error {
	err := os.Remove(f.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// attached tells whether a loop device has the volume's file.
func (f *volumeFiles) attached(id string) (bool, error) {
	names, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return false, err
	}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			continue // it was detached in the meantime
		}
		if strings.TrimSuffix(string(content), "\n") == f.path(id) {
			return true, nil
		}
	}
	return false, nil
}

// command runs a program; the error has what it printed.
func command(ctx context.Context, program string, arguments ...string) error {
	output, err := exec.CommandContext(ctx, program, arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(arguments, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}
