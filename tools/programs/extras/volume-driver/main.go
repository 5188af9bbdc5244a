// Command volume-driver gives claims their volumes out of a node's own disk. A volume is a sparse file with a btrfs in
// it, which a loop device mounts: so its size is real, and grows while it is in use. Btrfs, because Linux grows a mounted
// ext4 only for those who have CAP_SYS_RESOURCE, which sandboxes withhold.
//
// One runs on every node, as a plain process in the node's mount namespace. It is three things in one: the CSI driver,
// which the kubelet calls to mount; SIG Storage's external-provisioner, which has it make and remove the volumes of
// claims; and their external-resizer, which has it grow them. Each node looks after its own volumes alone: so no pod has
// to be started first, and a node that is down keeps its data until it is back.
//
// The two are used as packages, and not as the programs that they come as: those bring all of an API server with them,
// for its signal handler, and expect to be alone in the cluster.
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

// callTimeout is the longest that a call of the driver may take.
const callTimeout = time.Minute

// A failed attempt is tried again after firstRetry, and ever later up to lastRetry.
const (
	firstRetry = 500 * time.Millisecond
	lastRetry  = time.Minute
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig of a user with the rights in manifest.yaml")
	nodeName := flag.String("node-name", "", "the node whose claims are served")
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
	config.QPS = -1 // the API server's own priority and fairness is the limit, not client-go's five requests a second
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("-kubeconfig: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	ended, err := serve(ctx, socket, newDriver(nodeName, files))
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
	return <-ended
}

func newRateLimiter() workqueue.TypedRateLimiter[string] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)
}
