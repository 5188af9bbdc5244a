package main

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"echoperator/bench/controller-runtime/api"
)

// reconciler runs one Job per Echo and reports on it.
type reconciler struct {
	client.Client
	events events.EventRecorder
	image  string
}

func (r *reconciler) setUp(mgr ctrl.Manager, workers int) error {
	// A Job that was just created is our own creation, which needs no second look.
	notCreated := predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return false }}
	return ctrl.NewControllerManagedBy(mgr).
		For(&api.Echo{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&batchv1.Job{}, builder.WithPredicates(notCreated)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var echo api.Echo
	if err := r.Get(ctx, request.NamespacedName, &echo); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !echo.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	var job batchv1.Job
	err := r.Get(ctx, request.NamespacedName, &job)
	if apierrors.IsNotFound(err) {
		job = *jobFor(&echo, r.image)
		if err := controllerutil.SetControllerReference(&echo, &job, r.Scheme()); err != nil {
			return ctrl.Result{}, err
		}
		err = r.Create(ctx, &job)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.report(ctx, &echo, &job)
}

// report writes the status, and an Event, where the status says something else.
func (r *reconciler) report(ctx context.Context, echo *api.Echo, job *batchv1.Job) error {
	before := echo.DeepCopy()
	phase, condition := stateOf(job)
	condition.ObservedGeneration = echo.Generation
	echo.Status.Phase = phase
	echo.Status.JobName = job.Name
	echo.Status.ObservedGeneration = echo.Generation
	meta.SetStatusCondition(&echo.Status.Conditions, condition)
	if equality.Semantic.DeepEqual(before.Status, echo.Status) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Status().Patch(ctx, echo, patch); err != nil {
		return client.IgnoreNotFound(err)
	}
	log.FromContext(ctx).Info(condition.Message, "reason", condition.Reason)
	r.events.Eventf(echo, nil, corev1.EventTypeNormal, condition.Reason, "Reconcile", "%s", condition.Message)
	return nil
}

func stateOf(job *batchv1.Job) (phase string, ready metav1.Condition) {
	has := func(conditionType batchv1.JobConditionType) bool {
		for _, condition := range job.Status.Conditions {
			if condition.Type == conditionType && condition.Status == corev1.ConditionTrue {
				return true
			}
		}
		return false
	}
	is := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: "Ready", Status: status, Reason: reason, Message: fmt.Sprintf(message, job.Name)}
	}
	switch {
	case has(batchv1.JobComplete):
		return "Succeeded", is(metav1.ConditionTrue, "Printed", "Job %s has printed the message")
	case has(batchv1.JobFailed):
		return "Failed", is(metav1.ConditionFalse, "JobFailed", "Job %s has failed")
	case job.Status.Active > 0:
		return "Running", is(metav1.ConditionFalse, "Printing", "Job %s prints the message")
	default:
		return "Pending", is(metav1.ConditionFalse, "Printing", "Job %s prints the message")
	}
}
