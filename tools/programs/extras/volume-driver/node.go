package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
	"k8s.io/mount-utils"
)

// nodeService mounts the volumes of its own node into the node's pods.
type nodeService struct {
	csi.UnimplementedNodeServer
	nodeName string
	files    *volumeFiles
	mounter  mount.Interface
}

// dataFolder is the folder of a volume's file system that is mounted into pods. Every user may write to it, because the
// driver does not know the pods' users. Only the user root may write to the root folder of a new file system.
const dataFolder = "data"

func (n *nodeService) NodeGetInfo(
	context.Context, *csi.NodeGetInfoRequest,
) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: n.nodeName, AccessibleTopology: topologyOf(n.nodeName)}, nil
}

func (*nodeService) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	capability := func(kind csi.NodeServiceCapability_RPC_Type) *csi.NodeServiceCapability {
		return &csi.NodeServiceCapability{Type: &csi.NodeServiceCapability_Rpc{
			Rpc: &csi.NodeServiceCapability_RPC{Type: kind},
		}}
	}
	return &csi.NodeGetCapabilitiesResponse{Capabilities: []*csi.NodeServiceCapability{
		capability(csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME),
		capability(csi.NodeServiceCapability_RPC_EXPAND_VOLUME),
	}}, nil
}

// NodeStageVolume mounts the volume's file system, once for all pods.
//
// mount(8) sets autoclear on the loop device: the kernel detaches it at the last unmount, also when the node's mount
// namespace ends. Therefore a killed node leaves no loop device attached.
func (n *nodeService) NodeStageVolume(
	_ context.Context, request *csi.NodeStageVolumeRequest,
) (*csi.NodeStageVolumeResponse, error) {
	id, staging := request.GetVolumeId(), request.GetStagingTargetPath()
	if id == "" || staging == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_id or staging_target_path is missing")
	}
	if err := checkCapabilities([]*csi.VolumeCapability{request.GetVolumeCapability()}); err != nil {
		return nil, err
	}
	if _, err := n.files.size(id); err != nil {
		return nil, err
	}
	options := append([]string{"loop"}, request.GetVolumeCapability().GetMount().GetMountFlags()...)
	if err := n.mountOnce(n.files.path(id), staging, filesystem, options); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if err := createSharedFolder(filepath.Join(staging, dataFolder)); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodeStageVolumeResponse{}, nil
}

// NodePublishVolume mounts the staged volume into one pod.
func (n *nodeService) NodePublishVolume(
	_ context.Context, request *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	id, staging, target := request.GetVolumeId(), request.GetStagingTargetPath(), request.GetTargetPath()
	if id == "" || staging == "" || target == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_id, staging_target_path or target_path is missing")
	}
	if err := checkCapabilities([]*csi.VolumeCapability{request.GetVolumeCapability()}); err != nil {
		return nil, err
	}
	if _, err := n.files.size(id); err != nil {
		return nil, err
	}
	staged, err := n.isMountPoint(staging)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if !staged {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is not staged at %s", id, staging)
	}
	options := []string{"bind"}
	if request.GetReadonly() {
		options = append(options, "ro")
	}
	if err := n.mountOnce(filepath.Join(staging, dataFolder), target, "", options); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// NodeExpandVolume grows a mounted file system to the size of its volume.
func (n *nodeService) NodeExpandVolume(
	ctx context.Context, request *csi.NodeExpandVolumeRequest,
) (*csi.NodeExpandVolumeResponse, error) {
	id, path := request.GetVolumeId(), request.GetVolumePath()
	if id == "" || path == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_id or volume_path is missing")
	}
	size, err := n.files.size(id)
	if err != nil {
		return nil, err
	}
	device, _, err := mount.GetDeviceNameFromMount(n.mounter, path)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if device == "" {
		return nil, status.Errorf(codes.Internal, "volume %s is not mounted at %s", id, path)
	}
	// The loop device does not notice that its file has grown.
	if err := command(ctx, "losetup", "--set-capacity", device); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if err := command(ctx, "btrfs", "filesystem", "resize", "max", path); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	klog.InfoS("Grew file system", "id", id, "bytes", size, "device", device)
	return &csi.NodeExpandVolumeResponse{CapacityBytes: size}, nil
}

func (n *nodeService) NodeUnpublishVolume(
	_ context.Context, request *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	if request.GetVolumeId() == "" || request.GetTargetPath() == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_id or target_path is missing")
	}
	if err := mount.CleanupMountPoint(request.GetTargetPath(), n.mounter, true); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

func (n *nodeService) NodeUnstageVolume(
	_ context.Context, request *csi.NodeUnstageVolumeRequest,
) (*csi.NodeUnstageVolumeResponse, error) {
	if request.GetVolumeId() == "" || request.GetStagingTargetPath() == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_id or staging_target_path is missing")
	}
	if err := mount.CleanupMountPoint(request.GetStagingTargetPath(), n.mounter, true); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodeUnstageVolumeResponse{}, nil
}

// mountOnce mounts source at target unless target is a mount point. Only an earlier call can have mounted something there.
func (n *nodeService) mountOnce(source, target, kind string, options []string) error {
	mounted, err := n.isMountPoint(target)
	if err != nil || mounted {
		return err
	}
	if err := os.MkdirAll(target, 0o750); err != nil {
		return err
	}
	return n.mounter.Mount(source, target, kind, options)
}

func (n *nodeService) isMountPoint(path string) (bool, error) {
	mounted, err := n.mounter.IsMountPoint(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return mounted, err
}

// createSharedFolder creates a folder to which every user may write. An existing folder keeps its permissions, which its
// users may have changed. The folder is renamed when complete, so a crash leaves no folder with wrong permissions.
func createSharedFolder(path string) error {
	if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	unfinished := path + ".new"
	if err := os.MkdirAll(unfinished, 0o777); err != nil {
		return err
	}
	// Mkdir's mode is subject to the umask.
	if err := os.Chmod(unfinished, 0o777); err != nil {
		return err
	}
	return os.Rename(unfinished, path)
}
