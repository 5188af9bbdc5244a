package main

import (
	"fmt"
	"os"
	"time"

	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// election is how this process contends with others of its kind; the zero value: not at all.
type election struct {
	id, namespace                             string
	leaseDuration, renewDeadline, retryPeriod time.Duration
	warm                                      bool
}

func (e election) enabled() bool { return e.id != "" }

func readElection() (election, error) {
	e := election{
		id:        os.Getenv("LEADER_ELECTION_ID"),
		namespace: os.Getenv("LEADER_ELECTION_NAMESPACE"),
		warm:      os.Getenv("WARM_STANDBY") == "true",
	}
	if !e.enabled() {
		return election{}, nil
	}
	for name, duration := range map[string]*time.Duration{
		"LEASE_DURATION": &e.leaseDuration,
		"RENEW_DEADLINE": &e.renewDeadline,
		"RETRY_PERIOD":   &e.retryPeriod,
	} {
		var err error
		if *duration, err = time.ParseDuration(os.Getenv(name)); err != nil {
			return election{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	return e, nil
}

func (e election) apply(options *ctrl.Options) {
	if !e.enabled() {
		return
	}
	options.LeaderElection = true
	options.LeaderElectionID = e.id
	options.LeaderElectionNamespace = e.namespace
	// The process ends with its manager: a successor need not wait until the Lease expires.
	options.LeaderElectionReleaseOnCancel = true
	options.LeaseDuration = &e.leaseDuration
	options.RenewDeadline = &e.renewDeadline
	options.RetryPeriod = &e.retryPeriod
	options.Controller.EnableWarmup = ptr.To(e.warm)
}
