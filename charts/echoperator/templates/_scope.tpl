{{/*
Refuses to watch a namespace that another release of this chart watches. What that one watches is where its ServiceAccount
is bound to the operator's rules (rbac/operator.yaml); the bindings are found by labels that no value changes, and name the
release and its namespace. Where Helm asks no cluster (`helm template`, `helm lint`) `lookup` finds nothing.
*/}}
{{- define "echoperator.refuseOverlap" -}}
{{- $rbac := "rbac.authorization.k8s.io/v1" -}}
{{- $bindings := (lookup $rbac "ClusterRoleBinding" "" "").items | default list -}}
{{- range .Values.watchNamespaces | default (list "") }}
{{- $bindings = concat $bindings ((lookup $rbac "RoleBinding" . "").items | default list) }}
{{- end }}
{{- range $binding := $bindings }}
{{- $labels := $binding.metadata.labels | default dict }}
{{- if and (eq (get $labels "app.kubernetes.io/part-of") "echoperator") (eq (get $labels "app.kubernetes.io/component") "operator") }}
{{- $release := get $labels "app.kubernetes.io/instance" }}
{{- range $binding.subjects }}
{{- if not (and (eq $release $.Release.Name) (eq .namespace $.Release.Namespace)) }}
{{- $watched := "every namespace" }}
{{- with $binding.metadata.namespace }}{{ $watched = printf "namespace %q" . }}{{ end }}
{{- fail (printf "release %q in namespace %q watches %s already, and no two releases may watch the same: give each of them watchNamespaces that the other has not, or uninstall one." $release .namespace $watched) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
