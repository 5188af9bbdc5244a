{{/* The namespaces that the release watches, as a list. Empty: all. */}}
{{- define "echoperator.watchedNamespaces" -}}
{{- .Values.watchNamespaces | default (ternary (list .Release.Namespace) list .Values.scope.namespaced) | toYaml }}
{{- end }}

{{/*
Fails if another release of this chart watches one of this release's namespaces. A release watches the namespaces where its
ServiceAccount is bound to the operator's rules (rbac/operator.yaml). Such a binding has labels that no value changes; they and its
subject name the release and its namespace. Without a cluster (`helm template`, `helm lint`) `lookup` finds nothing. With
scope.namespaced, who installs the release may not list ClusterRoleBindings.
*/}}
{{- define "echoperator.rejectOverlap" -}}
{{- $rbac := "rbac.authorization.k8s.io/v1" -}}
{{- $bindings := list -}}
{{- if not .Values.scope.namespaced }}
{{- $bindings = (lookup $rbac "ClusterRoleBinding" "" "").items | default list }}
{{- end }}
{{- range include "echoperator.watchedNamespaces" . | fromYamlArray | default (list "") }}
{{- $bindings = concat $bindings ((lookup $rbac "RoleBinding" . "").items | default list) }}
{{- end }}
{{- range $binding := $bindings }}
{{- $labels := $binding.metadata.labels | default dict }}
{{- if and (eq (get $labels "app.kubernetes.io/part-of") "echoperator") (eq (get $labels "app.kubernetes.io/component") "operator") }}
{{- $release := get $labels "app.kubernetes.io/instance" }}
{{- range $binding.subjects }}
{{- if not (and (eq $release $.Release.Name) (eq .namespace $.Release.Namespace)) }}
{{- $watched := "every namespace" }}
{{- $leftover := printf "clusterrole,clusterrolebinding %s" $binding.metadata.name }}
{{- with $binding.metadata.namespace }}
{{- $watched = printf "namespace %q" . }}
{{- $leftover = printf "role,rolebinding %s --namespace %s" $binding.metadata.name . }}
{{- end }}
{{- fail (printf "release %q in namespace %q already watches %s. Two releases must not watch the same namespace: set watchNamespaces of both releases to different namespaces, or uninstall one of them. If that release no longer exists: kubectl delete %s" $release .namespace $watched $leftover) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
