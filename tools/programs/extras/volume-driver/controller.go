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

// controllerService makes, grows and removes the volumes of its own node.
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

// CreateVolume makes a volume whose id is its name; one of a size that will do is there already where it was made by
// an earlier call.
func (c *controllerService) CreateVolume(
	ctx context.Context, request *csi.CreateVolumeRequest,
) (*csi.CreateVolumeResponse, error) {
	id := request.GetName()
	if !usableID.MatchString(id) {
		return nil, status.Errorf(codes.InvalidArgument, "name: got %q, takes what can be a file's name", id)
	}
	if err := checkCapabilities(request.GetVolumeCapabilities()); err != nil {
		return nil, err
	}
	if request.GetVolumeContentSource() != nil {
		return nil, status.Error(codes.InvalidArgument, "a volume is made empty, of no other volume or snapshot")
	}
	if !c.isAmong(request.GetAccessibilityRequirements().GetRequisite()) {
		return nil, status.Errorf(codes.ResourceExhausted, "a volume made by %s can be had there alone", c.nodeName)
	}
	size, err := sizeWithin(request.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	present, err := c.files.size(id)
	switch {
	case err == nil:
		limit := request.GetCapacityRange().GetLimitBytes()
		if present < size || (limit > 0 && present > limit) {
			return nil, status.Errorf(codes.AlreadyExists, "volume %s is there, with %d bytes", id, present)
		}
		size = present
	case status.Code(err) == codes.NotFound:
		if err := c.files.make(ctx, id, size); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		klog.InfoS("Made volume", "id", id, "bytes", size)
	default:
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId:           id,
		CapacityBytes:      size,
		AccessibleTopology: []*csi.Topology{topologyOf(c.nodeName)},
	}}, nil
}

// DeleteVolume refuses while the volume is mounted: the kubelet of a pod that was deleted by force may not have got there
// yet.
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
	attached, err := c.files.attached(id)
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

// ControllerExpandVolume makes the volume larger, and leaves its filesystem to the node service.
func (c *controllerService) ControllerExpandVolume(
	_ context.Context, request *csi.ControllerExpandVolumeRequest,
) (*csi.ControllerExpandVolumeResponse, error) {
	id := request.GetVolumeId()
	if id == "" || request.GetCapacityRange() == nil {
		return nil, status.Error(codes.InvalidArgument, "volume_id or capacity_range is missing")
	}
	present, err := c.files.size(id)
	if err != nil {
		return nil, err
	}
	size, err := sizeWithin(request.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	if present < size {
		if err := c.files.grow(id, size); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		klog.InfoS("Grew volume", "id", id, "bytes", size, "before", present)
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: max(size, present), NodeExpansionRequired: true}, nil
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

// isAmong tells whether the node is one of those from which the volume must be had; without any, every node will do.
func (c *controllerService) isAmong(requisite []*csi.Topology) bool {
	for _, topology := range requisite {
		if proto.Equal(topology, topologyOf(c.nodeName)) {
			return true
		}
	}
	return len(requisite) == 0
}

// sizeWithin is the size of a volume that a range allows, in bytes: whole mebibytes, and enough for a filesystem.
func sizeWithin(wanted *csi.CapacityRange) (int64, error) {
	required, limit := wanted.GetRequiredBytes(), wanted.GetLimitBytes()
	if required < 0 || limit < 0 || required > largestVolume {
		return 0, status.Errorf(codes.OutOfRange, "a volume has up to %d bytes, got %d", largestVolume, required)
	}
	size := max(smallestVolume, (required+mebibyte-1)/mebibyte*mebibyte)
	if limit > 0 && size > limit {
		return 0, status.Errorf(codes.OutOfRange, "a volume for %d bytes has %d, more than %d", required, size, limit)
	}
	return size, nil
}

const filesystem = "btrfs"

// checkCapabilities tells why a volume can't be what is asked of it.
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
		return fmt.Errorf("volumeMode: takes Filesystem, got %T", capability.GetAccessType())
	}
	if kind := capability.GetMount().GetFsType(); kind != "" && kind != filesystem {
		return fmt.Errorf("csi.storage.k8s.io/fstype: takes %s, got %q", filesystem, kind)
	}
	switch mode := capability.GetAccessMode().GetMode(); mode {
	case csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY:
		return nil
	default:
		return fmt.Errorf("accessModes: a volume on one node takes ReadWriteOnce or ReadWriteOncePod, got %s", mode)
	}
}
