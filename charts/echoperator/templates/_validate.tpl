{{/* What values.schema.json cannot say: how one value stands to another. */}}
{{- define "echoperator.validate" -}}
{{- if not (include "echoperator.controllers" .) }}
{{- fail "controllers: enable one of them at least: the operator would have nothing to do." }}
{{- end }}
{{- with .Values.ha.leaderElection }}
{{- if le (int .leaseDurationSeconds) (int .renewDeadlineSeconds) }}
{{- fail (printf "ha.leaderElection.leaseDurationSeconds (%d) must be greater than ha.leaderElection.renewDeadlineSeconds (%d): a leader that cannot renew its Lease has to stop before another may take it." (int .leaseDurationSeconds) (int .renewDeadlineSeconds)) }}
{{- end }}
{{- if le (mul 10 .renewDeadlineSeconds) (mul 12 .retryPeriodSeconds) }}
{{- fail (printf "ha.leaderElection.renewDeadlineSeconds (%d) must be greater than 1.2 times ha.leaderElection.retryPeriodSeconds (%d): an attempt may begin a fifth of the period late, at random, and has to begin before the deadline." (int .renewDeadlineSeconds) (int .retryPeriodSeconds)) }}
{{- end }}
{{- end }}
{{- if le (int .Values.terminationGracePeriodSeconds) (int .Values.shutdownTimeoutSeconds) }}
{{- fail (printf "terminationGracePeriodSeconds (%d) must be greater than shutdownTimeoutSeconds (%d): the kubelet would kill the operator before it has finished the work in hand." (int .Values.terminationGracePeriodSeconds) (int .Values.shutdownTimeoutSeconds)) }}
{{- end }}
{{- if and .Values.monitoring.enabled (eq (int .Values.monitoring.port) (int .Values.health.port)) }}
{{- fail (printf "monitoring.port (%d) and health.port (%d) must differ: each has a server of its own." (int .Values.monitoring.port) (int .Values.health.port)) }}
{{- end }}
{{- end }}
