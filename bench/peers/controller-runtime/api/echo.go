// Package api has the Echo resource as the API server stores it.
package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion of the Echo resource.
var GroupVersion = schema.GroupVersion{Group: "mmontes.io", Version: "v1alpha1"}

// AddToScheme makes a scheme know Echos.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Echo{}, &EchoList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// EchoSpec says what to print.
type EchoSpec struct {
	Message                 string `json:"message"`
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// EchoStatus says how far it is.
type EchoStatus struct {
	Phase              string             `json:"phase,omitempty"`
	JobName            string             `json:"jobName,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// Echo prints a message by a Job.
type Echo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   EchoSpec   `json:"spec,omitempty"`
	Status EchoStatus `json:"status,omitempty"`
}

// EchoList is a page of Echos.
type EchoList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Echo `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (in *Echo) DeepCopyObject() runtime.Object { return in.DeepCopy() }

// DeepCopyObject implements runtime.Object.
func (in *EchoList) DeepCopyObject() runtime.Object {
	out := &EchoList{TypeMeta: in.TypeMeta, Items: make([]Echo, len(in.Items))}
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range in.Items {
		in.Items[i].DeepCopyInto(&out.Items[i])
	}
	return out
}

// DeepCopy returns a copy that shares nothing with the receiver.
func (in *Echo) DeepCopy() *Echo {
	out := new(Echo)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto writes into out a copy that shares nothing with the receiver.
func (in *Echo) DeepCopyInto(out *Echo) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if in.Spec.TTLSecondsAfterFinished != nil {
		seconds := *in.Spec.TTLSecondsAfterFinished
		out.Spec.TTLSecondsAfterFinished = &seconds
	}
	if in.Status.Conditions != nil {
		out.Status.Conditions = make([]metav1.Condition, len(in.Status.Conditions))
		for i := range in.Status.Conditions {
			in.Status.Conditions[i].DeepCopyInto(&out.Status.Conditions[i])
		}
	}
}
