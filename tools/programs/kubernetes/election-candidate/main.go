// Command election-candidate contends for Leases with client-go's leader election and does nothing else. The tests of our
// own elector run both against each other. When a candidate loses a Lease, it contends again under a new identity.
//
// It appends each event as a line of JSON to a journal, with CLOCK_MONOTONIC timestamps. All processes of a machine share
// this clock. On SIGTERM and SIGINT the program exits; with -release it first releases its Leases.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

type settings struct {
	kubeconfig, server, journal          string
	namespace, leases, name              string
	leaseDuration, renewDeadline, period time.Duration
	release                              bool
}

func main() {
	var s settings
	flag.StringVar(&s.kubeconfig, "kubeconfig", "", "the path of the kubeconfig")
	flag.StringVar(&s.server, "server", "", "the API server's URL, instead of the kubeconfig's")
	flag.StringVar(&s.journal, "journal", "", "the file to append events to; default: standard output")
	flag.StringVar(&s.namespace, "namespace", "default", "the namespace of the Leases")
	flag.StringVar(&s.leases, "leases", "", "the names of the Leases, separated by commas")
	flag.StringVar(&s.name, "name", "client-go", "the prefix of every identity")
	flag.DurationVar(&s.leaseDuration, "lease-duration", 15*time.Second, "")
	flag.DurationVar(&s.renewDeadline, "renew-deadline", 10*time.Second, "")
	flag.DurationVar(&s.period, "retry-period", 2*time.Second, "")
	flag.BoolVar(&s.release, "release", true, "release the held Leases on exit")
	flag.Parse()
	if err := run(s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(s settings) error {
	config, err := clientcmd.BuildConfigFromFlags(s.server, s.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1 // no rate limit, because a shared limit would couple the Leases
	// As in controller-runtime: a request without a response costs half a renew deadline.
	config.Timeout = s.renewDeadline / 2
	out, err := openJournal(s.journal)
	if err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	var candidates sync.WaitGroup
	failures := make(chan error, strings.Count(s.leases, ",")+1)
	for lease := range strings.SplitSeq(s.leases, ",") {
		candidates.Go(func() {
			for ctx.Err() == nil {
				if err := contend(ctx, s, rest.CopyConfig(config), lease, out); err != nil {
					failures <- err
					cancel()
				}
			}
		})
	}
	candidates.Wait()
	close(failures)
	for failure := range failures {
		err = errors.Join(err, failure)
	}
	return err
}

// contend contends once for a Lease. It returns when the candidate has held and lost the Lease, or the context is done.
func contend(ctx context.Context, s settings, config *rest.Config, lease string, out *journal) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	identity := fmt.Sprintf("%s_%s", s.name, uuid.NewUUID())
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: s.namespace, Name: lease},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration:   s.leaseDuration,
		RenewDeadline:   s.renewDeadline,
		RetryPeriod:     s.period,
		ReleaseOnCancel: s.release,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { out.write("leading", lease, identity) },
			// client-go also calls OnStoppedLeading if the candidate never led.
			OnStoppedLeading: func() { out.write("ended", lease, identity) },
			OnNewLeader:      func(string) {},
		},
	})
	if err != nil {
		return err
	}
	elector.Run(ctx)
	return nil
}

type journal struct {
	mutex sync.Mutex
	file  *os.File
}

func openJournal(path string) (*journal, error) {
	if path == "" {
		return &journal{file: os.Stdout}, nil
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &journal{file: file}, nil
}

func (j *journal) write(event, lease, identity string) {
	line, err := json.Marshal(map[string]any{"type": event, "lock": lease, "identity": identity, "at": monotonicMs()})
	if err != nil {
		panic(err)
	}
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		panic(err)
	}
}

func monotonicMs() float64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	return float64(now.Nano()) / 1e6
}
