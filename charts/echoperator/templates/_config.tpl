{{/* The operator's settings, as they stand in its environment. */}}
{{- define "echoperator.config" -}}
NAMESPACE: {{ .Release.Namespace | quote }}
WATCH_NAMESPACES: {{ .Values.watchNamespaces | join "," | quote }}
CONTROLLERS: {{ include "echoperator.controllers" . | quote }}
ENV: {{ .Values.env | quote }}
LOG_LEVEL: {{ .Values.logLevel | quote }}
NUM_WORKERS: {{ .Values.numWorkers | quote }}
RESYNC_SECONDS: {{ .Values.resyncSeconds | quote }}
ECHO_IMAGE: {{ .Values.echo.image | quote }}
SHUTDOWN_TIMEOUT_SECONDS: {{ .Values.shutdownTimeoutSeconds | quote }}
HA_ENABLED: {{ .Values.ha.enabled | quote }}
HA_WARM_STANDBY: {{ .Values.ha.warmStandby | quote }}
HA_LEASE_LOCK_NAME: {{ include "echoperator.fullname" . | quote }}
HA_LEASE_DURATION_SECONDS: {{ .Values.ha.leaderElection.leaseDurationSeconds | quote }}
HA_RENEW_DEADLINE_SECONDS: {{ .Values.ha.leaderElection.renewDeadlineSeconds | quote }}
HA_RETRY_PERIOD_SECONDS: {{ .Values.ha.leaderElection.retryPeriodSeconds | quote }}
METRICS_ENABLED: {{ .Values.monitoring.enabled | quote }}
METRICS_PATH: {{ .Values.monitoring.path | quote }}
METRICS_PORT: {{ .Values.monitoring.port | quote }}
HEALTH_PORT: {{ .Values.health.port | quote }}
{{- end }}

{{/* The names of the controllers that are enabled, with commas between them. */}}
{{- define "echoperator.controllers" -}}
{{- $names := list -}}
{{- range $name, $controller := .Values.controllers }}
{{- if $controller.enabled }}{{ $names = append $names $name }}{{ end }}
{{- end }}
{{- join "," $names }}
{{- end }}
