{{/* What values.schema.json cannot say: how one value stands to another. */}}
{{- define "echoperator.validate" -}}
{{- if .Values.ha.enabled }}
{{- fail "HA_ENABLED=true is not supported yet: high availability (leader election by Lease) comes with a later release; set ha.enabled=false." }}
{{- end }}
{{- if le (int .Values.terminationGracePeriodSeconds) (int .Values.shutdownTimeoutSeconds) }}
{{- fail (printf "terminationGracePeriodSeconds (%d) must be greater than shutdownTimeoutSeconds (%d): the kubelet would kill the operator before it has finished the work in hand." (int .Values.terminationGracePeriodSeconds) (int .Values.shutdownTimeoutSeconds)) }}
{{- end }}
{{- if and .Values.monitoring.enabled (eq (int .Values.monitoring.port) (int .Values.health.port)) }}
{{- fail (printf "monitoring.port (%d) and health.port (%d) must differ: each has a server of its own." (int .Values.monitoring.port) (int .Values.health.port)) }}
{{- end }}
{{- end }}
