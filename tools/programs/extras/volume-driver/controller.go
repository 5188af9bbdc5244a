package main

import (
	"context"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"k8s.io/klog/v2"
)

// controllerService creates, grows and deletes the volumes of its own node.
type controllerService struct {
	csi.UnimplementedControllerServer
	nodeName string
	files    *volumeFiles
}

func (*controllerService) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	capability := func(kind csi.ControllerServiceCapability_RPC_Type) *csi.ControllerServiceCapability {
		return &csi.ControllerServiceCapability{Type: &csi.ControllerServiceCapability_Rpc{
			Rpc: &csi.ControllerServiceCapability_RPC{Type: kind},
		}}
	}
	return &csi.ControllerGetCapabilitiesResponse{Capabilities: []*csi.ControllerServiceCapability{
		capability(csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME),
		capability(csi.ControllerServiceCapability_RPC_EXPAND_VOLUME),
	}}, nil
}

// CreateVolume creates a volume with its name as the id. If the volume exists and its size is within the requested range,
// CreateVolume returns the existing volume.
func (c *controllerService) CreateVolume(
	ctx context.Context, request *csi.CreateVolumeRequest,
) (*csi.CreateVolumeResponse, error) {
	id := request.GetName()
	if !usableID.MatchString(id) {
		return nil, status.Errorf(codes.InvalidArgument, "name: got %q, must be a valid file name", id)
	}
	if err := checkCapabilities(request.GetVolumeCapabilities()); err != nil {
		return nil, err
	}
	if request.GetVolumeContentSource() != nil {
		return nil, status.Error(codes.InvalidArgument, "volume_content_source: cloning a volume or a snapshot is not supported")
	}
	if !c.isAmong(request.GetAccessibilityRequirements().GetRequisite()) {
		return nil, status.Errorf(codes.ResourceExhausted, "a volume of node %s is accessible only on that node", c.nodeName)
	}
	size, err := sizeWithin(request.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	existing, err := c.files.size(id)
	switch {
	case err == nil:
		limit := request.GetCapacityRange().GetLimitBytes()
		if existing < size || (limit > 0 && existing > limit) {
			return nil, status.Errorf(codes.AlreadyExists, "volume %s exists with %d bytes", id, existing)
		}
		size = existing
	case status.Code(err) == codes.NotFound:
		if err := c.files.create(ctx, id, size); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		klog.InfoS("Created volume", "id", id, "bytes", size)
	default:
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId:           id,
		CapacityBytes:      size,
		AccessibleTopology: []*csi.Topology{topologyOf(c.nodeName)},
	}}, nil
}

// DeleteVolume refuses to delete a mounted volume. After a forced deletion of a pod, the kubelet may not have unmounted
// it yet.
func (c *controllerService) DeleteVolume(
	_ context.Context, request *csi.DeleteVolumeRequest,
) (*csi.DeleteVolumeResponse, error) {
	id := request.GetVolumeId()
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_id is missing")
	}
	if _, err := c.files.size(id); status.Code(err) == codes.NotFound {
		return &csi.DeleteVolumeResponse{}, nil
	}
	attached, err := c.files.isAttached(id)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if attached {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is mounted", id)
	}
	if err := c.files.remove(id); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	klog.InfoS("Removed volume", "id", id)
	return &csi.DeleteVolumeResponse{}, nil
}

// ControllerExpandVolume grows the volume. NodeExpandVolume then grows the file system.
func (c *controllerService) ControllerExpandVolume(
	_ context.Context, request *csi.ControllerExpandVolumeRequest,
) (*csi.ControllerExpandVolumeResponse, error) {
	id := request.GetVolumeId()
	if id == "" || request.GetCapacityRange() == nil {
		return nil, status.Error(codes.InvalidArgument, "volume_id or capacity_range is missing")
	}
	existing, err := c.files.size(id)
	if err != nil {
		return nil, err
	}
	size, err := sizeWithin(request.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	if existing < size {
		if err := c.files.grow(id, size); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		klog.InfoS("Grew volume", "id", id, "bytes", size, "before", existing)
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: max(size, existing), NodeExpansionRequired: true}, nil
}

func (c *controllerService) ValidateVolumeCapabilities(
	_ context.Context, request *csi.ValidateVolumeCapabilitiesRequest,
) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if request.GetVolumeId() == "" || len(request.GetVolumeCapabilities()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "volume_id or volume_capabilities is missing")
	}
	if _, err := c.files.size(request.GetVolumeId()); err != nil {
		return nil, err
	}
	if err := checkCapabilities(request.GetVolumeCapabilities()); err != nil {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: status.Convert(err).Message()}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{
		Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
			VolumeCapabilities: request.GetVolumeCapabilities(),
		},
	}, nil
}

// isAmong reports whether requisite contains this node. An empty requisite accepts every node.
func (c *controllerService) isAmong(requisite []*csi.Topology) bool {
	for _, topology := range requisite {
		if proto.Equal(topology, topologyOf(c.nodeName)) {
			return true
		}
	}
	return len(requisite) == 0
}

// sizeWithin returns the smallest allowed size within a range, in bytes. The size is at least smallestVolume and a
// multiple of a mebibyte.
func sizeWithin(wanted *csi.CapacityRange) (int64, error) {
	required, limit := wanted.GetRequiredBytes(), wanted.GetLimitBytes()
	if required < 0 || limit < 0 || required > largestVolume {
		return 0, status.Errorf(codes.OutOfRange, "required_bytes: got %d, must be from 0 to %d", required, largestVolume)
	}
	size := max(smallestVolume, (required+mebibyte-1)/mebibyte*mebibyte)
	if limit > 0 && size > limit {
		return 0, status.Errorf(codes.OutOfRange, "limit_bytes: got %d, must be at least %d for a volume of %d bytes", limit, size, required)
	}
	return size, nil
}

const filesystem = "btrfs"

// checkCapabilities returns an error if the driver does not support one of the capabilities.
func checkCapabilities(capabilities []*csi.VolumeCapability) error {
	if len(capabilities) == 0 {
		return status.Error(codes.InvalidArgument, "a volume capability is missing")
	}
	for _, capability := range capabilities {
		if err := checkCapability(capability); err != nil {
			return status.Error(codes.InvalidArgument, err.Error())
		}
	}
	return nil
}

func checkCapability(capability *csi.VolumeCapability) error {
	if capability.GetMount() == nil {
		return fmt.Errorf("volumeMode: must be Filesystem, got %T", capability.GetAccessType())
	}
	if kind := capability.GetMount().GetFsType(); kind != "" && kind != filesystem {
		return fmt.Errorf("csi.storage.k8s.io/fstype: must be %s, got %q", filesystem, kind)
	}
	switch mode := capability.GetAccessMode().GetMode(); mode {
	case csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY:
		return nil
	default:
		return fmt.Errorf("accessModes: must be ReadWriteOnce or ReadWriteOncePod, got %s", mode)
	}
}
