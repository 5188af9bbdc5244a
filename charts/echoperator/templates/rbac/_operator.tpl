{{/* What the operator may do where it reconciles. All of it is in namespaces: with watchNamespaces it needs no ClusterRole. */}}
{{- define "echoperator.rules" -}}
- apiGroups: [mmontes.io]
  resources: [echos]
  verbs: [get, list, watch]
- apiGroups: [mmontes.io]
  resources: [echos/status]
  verbs: [patch]
# A Job names its Echo as the owner whose deletion has to wait for it; some clusters allow that only to who may set
# the owner's finalizers (admission plugin OwnerReferencesPermissionEnforcement).
- apiGroups: [mmontes.io]
  resources: [echos/finalizers]
  verbs: [update]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [list, watch, create, delete]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}

{{- define "echoperator.subjects" -}}
- kind: ServiceAccount
  name: {{ include "echoperator.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}
