package main

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/klog/v2"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// identityService reports the name and the capabilities of the driver.
type identityService struct {
	csi.UnimplementedIdentityServer
}

func (*identityService) GetPluginInfo(
	context.Context, *csi.GetPluginInfoRequest,
) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: driverName, VendorVersion: "1"}, nil
}

func (*identityService) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

func (*identityService) GetPluginCapabilities(
	context.Context, *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	service := func(kind csi.PluginCapability_Service_Type) *csi.PluginCapability {
		return &csi.PluginCapability{Type: &csi.PluginCapability_Service_{
			Service: &csi.PluginCapability_Service{Type: kind},
		}}
	}
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{
		service(csi.PluginCapability_Service_CONTROLLER_SERVICE),
		service(csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS),
		{Type: &csi.PluginCapability_VolumeExpansion_{
			VolumeExpansion: &csi.PluginCapability_VolumeExpansion{Type: csi.PluginCapability_VolumeExpansion_ONLINE},
		}},
	}}, nil
}

// registrationService registers the driver with the kubelet, which calls every socket in its folder of plugins.
type registrationService struct {
	registration.UnimplementedRegistrationServer
}

// GetInfo returns no endpoint, so the kubelet uses the socket of this call.
func (*registrationService) GetInfo(
	context.Context, *registration.InfoRequest,
) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type:              registration.CSIPlugin,
		Name:              driverName,
		SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (*registrationService) NotifyRegistrationStatus(
	_ context.Context, result *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	// After a failure the kubelet retries by itself.
	klog.InfoS("Registered with the kubelet", "registered", result.GetPluginRegistered(), "error", result.GetError())
	return &registration.RegistrationStatusResponse{}, nil
}
