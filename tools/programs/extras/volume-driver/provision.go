package main

import (
	"context"

	csiprovisioner "github.com/kubernetes-csi/external-provisioner/v6/pkg/controller"
	"google.golang.org/grpc"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	csitranslation "k8s.io/csi-translation-lib"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// startProvisioner starts the provisioner. It calls the driver to create volumes for claims whose pods are scheduled to
// this node, and to delete this node's released volumes. startProvisioner returns when the informers have synced.
//
// The StorageClasses need volumeBindingMode WaitForFirstConsumer, so that the scheduler chooses the node first.
func startProvisioner(ctx context.Context, client kubernetes.Interface, driver *grpc.ClientConn, nodeName string) error {
	pluginCapabilities, controllerCapabilities, err := csiprovisioner.GetDriverCapabilities(driver, callTimeout)
	if err != nil {
		return err
	}
	nodeInfo, err := csiprovisioner.GetNodeInfo(driver, callTimeout)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	claims := factory.Core().V1().PersistentVolumeClaims()
	node := &csiprovisioner.NodeDeployment{
		NodeName:      nodeName,
		ClaimInformer: claims,
		NodeInfo:      nodeInfo,
		BaseDelay:     firstRetry,
		MaxDelay:      lastRetry,
	}
	const (
		wholeUID          = -1
		noMigration       = ""
		strictTopology    = true
		immediateTopology = false
	)
	provisioner := csiprovisioner.NewCSIProvisioner(
		client,
		callTimeout,
		driverName+"-"+nodeName, // written into the volume's attributes
		"pvc",
		wholeUID,
		driver,
		nil, // no snapshots
		driverName,
		pluginCapabilities,
		controllerCapabilities,
		noMigration,
		strictTopology,
		immediateTopology,
		csitranslation.New(),
		factory.Storage().V1().StorageClasses().Lister(),
		factory.Storage().V1().CSINodes().Lister(),
		factory.Core().V1().Nodes().Lister(),
		claims.Lister(),
		nil, // no attachments
		nil, // no data sources in other namespaces
		false,
		filesystem,
		node,
		false,
		true,
		csiprovisioner.NewInMemoryStore(),
	)
	loop := controller.NewProvisionController(ctx, client, driverName, provisioner,
		controller.LeaderElection(false), // each node has its own provisioner
		controller.AddFinalizer(true),    // deletes the data also if the PersistentVolume is deleted before its claim
		controller.ClaimsInformer(claims.Informer()),
		controller.RateLimiter(newRateLimiter()),
		controller.CreateProvisionedPVLimiter(newRateLimiter()),
		controller.FailedProvisionThreshold(0), // no limit
		controller.FailedDeleteThreshold(0),
	)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	go loop.Run(ctx)
	return nil
}
