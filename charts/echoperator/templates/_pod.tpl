{{/*
An image: by digest where one is given, since not every container runtime takes a tag and a digest together:
(list . .Values.image).
*/}}
{{- define "echoperator.imageOf" -}}
{{- $context := first . -}}
{{- with index . 1 -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $context.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* The operator's. */}}
{{- define "echoperator.image" -}}
{{- include "echoperator.imageOf" (list . .Values.image) }}
{{- end }}

{{/*
What all pods of the chart have in common. No service links: a Service called `metrics` in the namespace would put
METRICS_PORT=tcp://… into the environment.
*/}}
{{- define "echoperator.podSpec" -}}
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What all containers of the chart have in common. */}}
{{- define "echoperator.containerSpec" -}}
image: {{ include "echoperator.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- with .Values.securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/*
A container's environment: what the chart sets, as text, and extraEnv, which wins: (list . envAsText). A name that is
in there twice would be refused by server-side apply, with which Helm 4 installs.
*/}}
{{- define "echoperator.env" -}}
{{- $extra := (first .).Values.extraEnv -}}
{{- $names := list -}}
{{- range $extra }}{{- $names = append $names .name }}{{- end -}}
{{- $env := list -}}
{{- range index . 1 | fromYamlArray }}
{{- if not (has .name $names) }}{{- $env = append $env . }}{{- end }}
{{- end -}}
{{- concat $env $extra | toYaml }}
{{- end }}

{{/*
Who the replica is, as its container's environment: (list . container). By the pod's uid and the container's name it finds
itself in the pod's status.
*/}}
{{- define "echoperator.identity" -}}
- name: HA_NODE_ID
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_UID
  valueFrom: {fieldRef: {fieldPath: metadata.uid}}
- name: CONTAINER_NAME
  value: {{ index . 1 }}
{{- end }}

{{/*
How the replicas are spread: as the values say, or with high availability over the nodes, where there are enough. That
counts the pods of one revision: those that a rolling update replaces would keep their successors away.
*/}}
{{- define "echoperator.spread" -}}
{{- $constraints := .Values.topologySpreadConstraints -}}
{{- if and .Values.ha.enabled (not $constraints) }}
{{- $constraints = list (dict "maxSkew" 1 "topologyKey" "kubernetes.io/hostname" "whenUnsatisfiable" "ScheduleAnyway" "matchLabelKeys" (list "pod-template-hash")) }}
{{- end }}
{{- $ownPods := dict "labelSelector" (dict "matchLabels" (include "echoperator.selectorLabels" . | fromYaml)) -}}
{{- $spread := list -}}
{{- range $constraints }}
{{- $spread = append $spread (hasKey . "labelSelector" | ternary . (mustMerge (deepCopy .) $ownPods)) }}
{{- end }}
{{- toYaml $spread }}
{{- end }}
