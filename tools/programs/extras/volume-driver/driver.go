package main

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/mount-utils"
)

// nodeTopologyKey is the label that ties a volume to its node. The kubelet sets it on the Node when the driver registers.
const nodeTopologyKey = driverName + "/node"

// topologyOf returns the topology of a node's volumes: they are accessible only on that node.
func topologyOf(nodeName string) *csi.Topology {
	return &csi.Topology{Segments: map[string]string{nodeTopologyKey: nodeName}}
}

// driver is the CSI driver of one node: all of its services, on one socket.
//
// Calls are idempotent: the kubelet or a sidecar may be killed before it gets the response, and repeats the call.
type driver struct {
	identity     *identityService
	controller   *controllerService
	node         *nodeService
	registration *registrationService
}

func newDriver(nodeName string, files *volumeFiles) *driver {
	return &driver{
		identity:     &identityService{},
		controller:   &controllerService{nodeName: nodeName, files: files},
		node:         &nodeService{nodeName: nodeName, files: files, mounter: mount.NewWithoutSystemd("")},
		registration: &registrationService{},
	}
}

// serve starts the gRPC server on a Unix socket. The server stops when the context is done; the channel then receives the
// server's error.
func serve(ctx context.Context, socket string, driver *driver) (<-chan error, error) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o750); err != nil {
		return nil, err
	}
	// A killed driver leaves its socket file behind, and listen fails if the file exists.
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(oneAtATime()))
	csi.RegisterIdentityServer(server, driver.identity)
	csi.RegisterControllerServer(server, driver.controller)
	csi.RegisterNodeServer(server, driver.node)
	registration.RegisterRegistrationServer(server, driver.registration)
	stopped := make(chan error, 1)
	go func() { stopped <- server.Serve(listener) }()
	context.AfterFunc(ctx, server.GracefulStop)
	return stopped, nil
}

// oneAtATime serializes all calls, so that a call sees the result of the previous call. One lock for all volumes is
// enough because calls are short.
func oneAtATime() grpc.UnaryServerInterceptor {
	var mutex sync.Mutex
	return func(
		ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
	) (any, error) {
		mutex.Lock()
		defer mutex.Unlock()
		if err := ctx.Err(); err != nil {
			return nil, status.FromContextError(err).Err()
		}
		response, err := handler(ctx, request)
		if err != nil {
			klog.ErrorS(err, "Call failed", "method", info.FullMethod, "request", request)
		}
		return response, err
	}
}
