{{/* What values.schema.json cannot say: how one value stands to another. */}}
{{- define "echoperator.validate" -}}
{{- if not (include "echoperator.controllers" .) }}
{{- fail "controllers: enable one of them at least: the operator would have nothing to do." }}
{{- end }}
{{- if .Values.controllers.postgresWriter.enabled }}
{{- if not .Values.postgresWriter.host }}
{{- fail "controllers.postgresWriter.enabled needs postgresWriter.host: the database that PostgresWriters write to." }}
{{- end }}
{{- $names := list }}{{- range .Values.extraEnv }}{{- $names = append $names .name }}{{- end }}
{{- if not (or .Values.postgresWriter.credentials.existingSecret (has "PSQL_USER" $names)) }}
{{- fail "controllers.postgresWriter.enabled needs postgresWriter.credentials.existingSecret: the Secret with the role's name and password." }}
{{- end }}
{{- end }}
{{- if include "echoperator.petstoreIsOwn" . }}
{{- if and .Values.petstore.tls.secretName (not .Values.pet.tls.enabled) }}
{{- fail "petstore.tls.secretName needs pet.tls.enabled, and pet.tls.caSecret where no public authority has signed that certificate: the operator would speak plain text to a store that speaks TLS." }}
{{- end }}
{{- if and .Values.pet.tls.enabled (not .Values.petstore.tls.secretName) }}
{{- fail "pet.tls.enabled needs petstore.tls.secretName: the operator would speak TLS to a store that speaks plain text." }}
{{- end }}
{{- end }}
{{- with .Values.ha.leaderElection }}
{{- if le (int .leaseDurationSeconds) (int .renewDeadlineSeconds) }}
{{- fail (printf "ha.leaderElection.leaseDurationSeconds (%d) must be greater than ha.leaderElection.renewDeadlineSeconds (%d): a leader that cannot renew its Lease has to stop before another may take it." (int .leaseDurationSeconds) (int .renewDeadlineSeconds)) }}
{{- end }}
{{- if le (mul 10 .renewDeadlineSeconds) (mul 12 .retryPeriodSeconds) }}
{{- fail (printf "ha.leaderElection.renewDeadlineSeconds (%d) must be greater than 1.2 times ha.leaderElection.retryPeriodSeconds (%d): a leader needs the time for another attempt." (int .renewDeadlineSeconds) (int .retryPeriodSeconds)) }}
{{- end }}
{{- end }}
{{- if lt (int .Values.terminationGracePeriodSeconds) (add .Values.shutdownTimeoutSeconds 6 | int) }}
{{- fail (printf "terminationGracePeriodSeconds (%d) must be at least 6 more than shutdownTimeoutSeconds (%d): the kubelet would kill the operator before it has finished the work in hand, written its last Events and released its Lease." (int .Values.terminationGracePeriodSeconds) (int .Values.shutdownTimeoutSeconds)) }}
{{- end }}
{{- if and .Values.monitoring.enabled (eq (int .Values.monitoring.port) (int .Values.health.port)) }}
{{- fail (printf "monitoring.port (%d) and health.port (%d) must differ: each has a server of its own." (int .Values.monitoring.port) (int .Values.health.port)) }}
{{- end }}
{{- end }}
