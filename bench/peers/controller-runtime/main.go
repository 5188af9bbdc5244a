// The controller-runtime peer of the benchmark: per Echo one Job, one status write, one Event.
//
// Environment: NUM_WORKERS (concurrent reconciles, default 4), ECHO_IMAGE, KUBECONFIG. READ_YOUR_WRITES=true: a read waits
// until the cache has observed the writes before it. With LEADER_ELECTION_ID it works only while it holds the Lease of that
// name in LEADER_ELECTION_NAMESPACE, by LEASE_DURATION, RENEW_DEADLINE and RETRY_PERIOD; WARM_STANDBY=true: it fills its
// caches before.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
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
	election, err := readElection()
	if err != nil {
		return err
	}
	options := ctrl.Options{
		Scheme: scheme,
		Cache:  cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
		Client: client.Options{Cache: &client.CacheOptions{
			EnableReadYourWritesConsistency: ptr.To(os.Getenv("READ_YOUR_WRITES") == "true"),
		}},
		Metrics: metricsserver.Options{BindAddress: "127.0.0.1:0"},
	}
	election.apply(&options)
	mgr, err := ctrl.NewManager(config, options)
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
	if err := saySynced(ctx, mgr, election); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// saySynced logs when the caches of both kinds have synced. It asks for them itself: of a standby that is to stay cold,
// only once it leads.
func saySynced(ctx context.Context, mgr ctrl.Manager, election election) error {
	ask := func(ctx context.Context) error {
		for _, object := range []client.Object{&api.Echo{}, &batchv1.Job{}} {
			if _, err := mgr.GetCache().GetInformer(ctx, object); err != nil {
				return err
			}
		}
		return nil
	}
	if !election.enabled() {
		if err := ask(ctx); err != nil {
			return err
		}
	}
	return mgr.Add(&announcer{onlyLeading: !election.warm, start: func(ctx context.Context) error {
		if err := ask(ctx); err != nil {
			return err
		}
		if mgr.GetCache().WaitForCacheSync(ctx) {
			mgr.GetLogger().Info("caches have synced")
			// Ours does the same: what the initial lists have left behind is freed.
			time.AfterFunc(time.Second, debug.FreeOSMemory)
		}
		return nil
	}})
}

// announcer is run once by the manager.
type announcer struct {
	onlyLeading bool
	start       func(context.Context) error
}

// Start implements manager.Runnable.
func (a *announcer) Start(ctx context.Context) error { return a.start(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (a *announcer) NeedLeaderElection() bool { return a.onlyLeading }
