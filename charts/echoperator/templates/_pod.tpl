{{/* The image: by digest where one is given, since not every container runtime takes a tag and a digest together. */}}
{{- define "echoperator.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
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
