// Command volume-driver provides volumes from a node's own disk. A volume is a sparse file with a btrfs file system,
// mounted by a loop device. Therefore its size is enforced, and it can grow while mounted. Growing a mounted ext4 would
// require CAP_SYS_RESOURCE, which sandboxes withhold.
//
// One process runs on each node, in the node's mount namespace. It contains the CSI driver, which the kubelet calls to
// mount volumes, and SIG Storage's external-provisioner and external-resizer, which call the driver to create, delete and
// grow volumes. Each process handles only the volumes of its node. Therefore no pod has to start first, and a node that
// is down keeps its data.
//
// The provisioner and the resizer are imported as packages. Their programs contain a whole API server for its signal
// handler, and expect to be the only one in the cluster.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/kubernetes-csi/csi-lib-utils/connection"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// driverName is the `provisioner` field of the StorageClasses that this program serves.
const driverName = "volumes.echoperator.test"

// callTimeout limits each call of the driver.
const callTimeout = time.Minute

// The delay between retries starts at firstRetry and doubles up to lastRetry.
const (
	firstRetry = 500 * time.Millisecond
	lastRetry  = time.Minute
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig of a user with the permissions in manifest.yaml")
	nodeName := flag.String("node-name", "", "the name of this node")
	root := flag.String("root", "", "absolute path of the folder that holds the volumes' files; the driver owns all of it")
	socket := flag.String("socket", "/var/lib/kubelet/plugins_registry/"+driverName+".sock",
		"absolute path of the driver's socket, in the folder where the kubelet looks for plugins")
	klog.InitFlags(nil)
	flag.Parse()
	if err := run(*kubeconfig, *nodeName, *root, *socket); err != nil {
		fmt.Fprintln(os.Stderr, "volume-driver:", err)
		os.Exit(1)
	}
}

func run(kubeconfig, nodeName, root, socket string) error {
	if nodeName == "" {
		return errors.New("-node-name: a node's name is required")
	}
	files, err := openVolumeFiles(root)
	if err != nil {
		return fmt.Errorf("-root: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("-kubeconfig: %w", err)
	}
	config.QPS = -1 // instead of client-go's five requests a second; API Priority and Fairness limits the requests
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("-kubeconfig: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	stopped, err := serve(ctx, socket, newDriver(nodeName, files))
	if err != nil {
		return fmt.Errorf("-socket: %w", err)
	}
	driver, err := connection.Connect(ctx, socket, nil)
	if err != nil {
		return fmt.Errorf("-socket: %w", err)
	}
	if err := startProvisioner(ctx, client, driver, nodeName); err != nil {
		return fmt.Errorf("provisioner: %w", err)
	}
	if err := startResizer(ctx, client, socket, topologyOf(nodeName)); err != nil {
		return fmt.Errorf("resizer: %w", err)
	}
	return <-stopped
}

func newRateLimiter() workqueue.TypedRateLimiter[string] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)
}
