package main

import (
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"echoperator/bench/controller-runtime/api"
)

// jobFor makes the same Job, field by field, that the other operators make; its owner is set by the caller.
func jobFor(echo *api.Echo, image string) *batchv1.Job {
	labels := map[string]string{
		"app.kubernetes.io/name":       "echo",
		"app.kubernetes.io/managed-by": "echoperator",
	}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name:        echo.Name,
			Namespace:   echo.Namespace,
			Labels:      labels,
			Annotations: map[string]string{"mmontes.io/generation": strconv.FormatInt(echo.Generation, 10)},
		},
		Spec: batchv1.JobSpec{
			TTLSecondsAfterFinished: echo.Spec.TTLSecondsAfterFinished,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					RestartPolicy:                corev1.RestartPolicyNever,
					AutomountServiceAccountToken: ptr.To(false),
					EnableServiceLinks:           ptr.To(false),
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot:   ptr.To(true),
						RunAsUser:      ptr.To[int64](65534),
						RunAsGroup:     ptr.To[int64](65534),
						SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					Containers: []corev1.Container{{
						Name:            "echo",
						Image:           image,
						ImagePullPolicy: corev1.PullIfNotPresent,
						Command:         []string{"printf", `%s\n`, strings.ReplaceAll(echo.Spec.Message, "$", "$$")},
						SecurityContext: &corev1.SecurityContext{
							AllowPrivilegeEscalation: ptr.To(false),
							ReadOnlyRootFilesystem:   ptr.To(true),
							Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
						},
						Resources: corev1.ResourceRequirements{
							Requests: corev1.ResourceList{
								corev1.ResourceCPU:    resource.MustParse("10m"),
								corev1.ResourceMemory: resource.MustParse("16Mi"),
							},
							Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
						},
					}},
				},
			},
		},
	}
}
