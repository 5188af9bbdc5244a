// Command provisioner gives claims their volumes out of a folder of the node's own disk. One runs on every node, as a
// plain process in the node's mount namespace, and looks after the claims and volumes of its own node alone: so no pod
// has to be started to make or remove a folder, and a node that is down keeps its data until it is back.
//
// The scheduler must choose the node before a volume is made: volumeBindingMode is WaitForFirstConsumer in the
// StorageClass (manifest.yaml). The size of a claim is recorded and not enforced, as a folder has no quota.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// provisionerName is the `provisioner` field of the StorageClasses that this program serves.
const provisionerName = "echoperator/local-volume"

// A failed attempt is tried again after firstRetry, and ever later up to lastRetry.
const (
	firstRetry = 500 * time.Millisecond
	lastRetry  = time.Minute
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig of a user with the rights in manifest.yaml")
	nodeName := flag.String("node-name", "", "the node whose claims are served; its label kubernetes.io/hostname is the same")
	root := flag.String("root", "", "absolute path of the folder, as the kubelet sees it, that holds a folder for each volume")
	klog.InitFlags(nil)
	flag.Parse()
	if err := run(*kubeconfig, *nodeName, *root); err != nil {
		fmt.Fprintln(os.Stderr, "provisioner:", err)
		os.Exit(1)
	}
}

func run(kubeconfig, nodeName, root string) error {
	volumes, err := newFolderProvisioner(nodeName, root)
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("-kubeconfig: %w", err)
	}
	config.QPS = -1 // the API server's own priority and fairness is the limit, not client-go's five requests a second
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("-kubeconfig: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	controller.NewProvisionController(ctx, client, provisionerName, volumes,
		controller.LeaderElection(false), // each node has its own provisioner, and all of them lead
		controller.AddFinalizer(true),    // a volume deleted before its claim must not leave its data behind
		controller.RateLimiter(workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)),
	).Run(ctx)
	return nil
}
