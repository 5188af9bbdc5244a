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

// nodeTopologyKey is the label by which a volume stays on its node. The kubelet gives it to the node when the driver
// registers.
const nodeTopologyKey = driverName + "/node"

// topologyOf tells from where the volumes of a node can be had: from that node.
func topologyOf(nodeName string) *csi.Topology {
	return &csi.Topology{Segments: map[string]string{nodeTopologyKey: nodeName}}
}

// driver is the CSI driver of one node: all of its services, on one socket.
//
// Every call may come again, for whoever sent it may have been killed before it had the answer: then it finds its work
// done, and answers the same.
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

// serve answers on a Unix socket when it returns, until the context ends. The channel has the reason then.
func serve(ctx context.Context, socket string, driver *driver) (<-chan error, error) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o750); err != nil {
		return nil, err
	}
	// That of one that was killed: nobody answers on it.
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
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	context.AfterFunc(ctx, server.GracefulStop)
	return ended, nil
}

// oneAtATime has a call find what the one before it has left, whichever volume it is for: nothing here takes long.
func oneAtATime() grpc.UnaryServerInterceptor {
	var turn sync.Mutex
	return func(
		ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
	) (any, error) {
		turn.Lock()
		defer turn.Unlock()
		if err := ctx.Err(); err != nil {
			return nil, status.FromContextError(err).Err()
		}
		answer, err := handler(ctx, request)
		if err != nil {
			klog.ErrorS(err, "Call failed", "method", info.FullMethod, "request", request)
		}
		return answer, err
	}
}
