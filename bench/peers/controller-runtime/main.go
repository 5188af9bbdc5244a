// The controller-runtime peer of the benchmark: per Echo one Job, one status write, one Event.
//
// Environment: NUM_WORKERS (concurrent reconciles, default 4), ECHO_IMAGE, KUBECONFIG.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"echoperator/bench/controller-runtime/api"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	ctrl.SetLogger(zap.New())
	workers, err := strconv.Atoi(cmp.Or(os.Getenv("NUM_WORKERS"), "4"))
	if err != nil {
		return fmt.Errorf("NUM_WORKERS: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := api.AddToScheme(scheme); err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.QPS = -1 // no client-side throttling
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Cache:   cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
		Metrics: metricsserver.Options{BindAddress: "127.0.0.1:0"},
	})
	if err != nil {
		return err
	}
	r := &reconciler{
		Client: mgr.GetClient(),
		events: mgr.GetEventRecorder("mmontes.io/controller-runtime-peer"),
		image:  cmp.Or(os.Getenv("ECHO_IMAGE"), "busybox:1.36"),
	}
	if err := r.setUp(mgr, workers); err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	if err := saySynced(ctx, mgr); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// saySynced logs when the caches of both kinds have synced.
func saySynced(ctx context.Context, mgr ctrl.Manager) error {
	for _, object := range []client.Object{&api.Echo{}, &batchv1.Job{}} {
		if _, err := mgr.GetCache().GetInformer(ctx, object); err != nil {
			return err
		}
	}
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		if mgr.GetCache().WaitForCacheSync(ctx) {
			mgr.GetLogger().Info("caches have synced")
		}
		return nil
	}))
}
