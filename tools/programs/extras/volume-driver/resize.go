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

// startResizer has the driver grow the node's volumes whose claims ask for more.
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
		inUseFails = false // the driver grows what is in use
	)
	// Not the provisioner's: it writes into its caches what it has sent.
	factory := informers.NewSharedInformerFactory(client, resync)
	own := ownVolumes{Resizer: all, topology: topology}
	loop := controller.NewResizeController(
		driverName, own, client, resync, factory, newRateLimiter(), inUseFails, lastRetry)
	factory.Start(ctx.Done())
	go loop.Run(workers, ctx, nil)
	return nil
}

// ownVolumes is a resizer of one node's volumes: external-resizer by itself expects to be alone in the cluster.
type ownVolumes struct {
	resizer.Resizer
	topology *csi.Topology
}

// CanSupport leaves a volume to the resizer of the node that it is on.
func (o ownVolumes) CanSupport(volume *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) bool {
	if !o.Resizer.CanSupport(volume, claim) {
		return false
	}
	here, err := csiprovisioner.VolumeIsAccessible(volume.Spec.NodeAffinity, o.topology)
	return err == nil && here
}
