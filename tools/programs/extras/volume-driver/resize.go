package main

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	csiprovisioner "github.com/kubernetes-csi/external-provisioner/v6/pkg/controller"
	"github.com/kubernetes-csi/external-resizer/v2/pkg/controller"
	resizerclient "github.com/kubernetes-csi/external-resizer/v2/pkg/csi"
	"github.com/kubernetes-csi/external-resizer/v2/pkg/resizer"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
)

// startResizer starts the resizer. It calls the driver to grow this node's volumes whose claims request more.
func startResizer(ctx context.Context, client kubernetes.Interface, socket string, topology *csi.Topology) error {
	driver, err := resizerclient.New(ctx, socket, callTimeout, nil)
	if err != nil {
		return err
	}
	all, err := resizer.NewResizerFromClient(driver, callTimeout, client, driverName)
	if err != nil {
		return err
	}
	const (
		resync     = 0
		workers    = 4
		inUseFails = false // the driver can grow mounted volumes
	)
	// The resizer writes its own updates into its caches, so it must not share them with the provisioner.
	factory := informers.NewSharedInformerFactory(client, resync)
	own := ownVolumes{Resizer: all, topology: topology}
	loop := controller.NewResizeController(
		driverName, own, client, resync, factory, newRateLimiter(), inUseFails, lastRetry)
	factory.Start(ctx.Done())
	go loop.Run(workers, ctx, nil)
	return nil
}

// ownVolumes limits a resizer to the volumes of one node. external-resizer expects to be the only one in the cluster.
type ownVolumes struct {
	resizer.Resizer
	topology *csi.Topology
}

// CanSupport reports whether the volume is on this node.
func (o ownVolumes) CanSupport(volume *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) bool {
	if !o.Resizer.CanSupport(volume, claim) {
		return false
	}
	here, err := csiprovisioner.VolumeIsAccessible(volume.Spec.NodeAffinity, o.topology)
	return err == nil && here
}
