{{/*
An image reference: (list . .Values.image). With a digest it has no tag, because not every container runtime accepts both.
*/}}
{{- define "echoperator.imageOf" -}}
{{- $context := first . -}}
{{- with index . 1 -}}
{{- $repository := include "echoperator.mirrored" (list $context .repository) -}}
{{- if .digest }}{{ $repository }}@{{ .digest }}{{ else }}{{ $repository }}:{{ .tag | default $context.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/*
An image with the registry of global.imageRegistry: (list . image). As in Docker's references, the part before the first slash is a
registry if it contains a dot or a colon, or is `localhost`.
*/}}
{{- define "echoperator.mirrored" -}}
{{- $image := index . 1 -}}
{{- $registry := (first .).Values.global.imageRegistry | default "" | trimSuffix "/" -}}
{{- if $registry }}{{ printf "%s/%s" $registry (regexReplaceAll "^(localhost|[^/]*[.:][^/]*)/" $image "") }}{{ else }}{{ $image }}{{ end }}
{{- end }}

{{/* The operator's image. */}}
{{- define "echoperator.image" -}}
{{- include "echoperator.imageOf" (list . .Values.image) }}
{{- end }}

{{/*
The fields that all pods of the chart share. Service links are off, because a Service called `metrics` in the namespace would set
METRICS_PORT=tcp://… in the environment.
*/}}
{{- define "echoperator.podSpec" -}}
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
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

{{/* The fields that all containers of the chart share. */}}
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
A container's environment: the chart's variables overridden by extraEnv: (list . envAsYaml). Each name appears once, because
server-side apply, which Helm 4 uses, rejects duplicates.
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
The environment variables that identify a replica: (list . container). With the pod's UID and the container's name the replica finds
its own container in the pod's status.
*/}}
{{- define "echoperator.identity" -}}
- name: HA_NODE_ID
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_UID
  valueFrom: {fieldRef: {fieldPath: metadata.uid}}
- name: CONTAINER_NAME
  value: {{ index . 1 | quote }}
{{- end }}

{{/*
The topology spread constraints: those of the values, or with high availability a preference for different nodes. The default counts
only pods of the same revision; otherwise old pods would keep new ones off their nodes during a rolling update.
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
