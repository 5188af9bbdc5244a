{{/* The operator's settings as environment variables. */}}
{{- define "echoperator.config" -}}
NAMESPACE: {{ .Release.Namespace | quote }}
WATCH_NAMESPACES: {{ .Values.watchNamespaces | default (include "echoperator.watchedNamespaces" . | fromYamlArray) | join "," | quote }}
CONTROLLERS: {{ include "echoperator.controllers" . | quote }}
ENV: {{ .Values.env | quote }}
LOG_LEVEL: {{ .Values.logLevel | quote }}
NUM_WORKERS: {{ .Values.numWorkers | quote }}
RESYNC_SECONDS: {{ .Values.resyncSeconds | quote }}
ECHO_IMAGE: {{ .Values.echo.image | list . | include "echoperator.mirrored" | quote }}
POD_SET_IMAGE: {{ .Values.podSet.image | list . | include "echoperator.mirrored" | quote }}
CHILD_POD_IMAGE_PULL_SECRETS: {{ include "echoperator.pullSecretNames" . | quote }}
CHILD_POD_NODE_SELECTOR: {{ .Values.childPods.nodeSelector | default dict | toJson | quote }}
CHILD_POD_TOLERATIONS: {{ .Values.childPods.tolerations | default list | toJson | quote }}
CHILD_POD_AFFINITY: {{ .Values.childPods.affinity | default dict | toJson | quote }}
CHILD_POD_PRIORITY_CLASS_NAME: {{ .Values.childPods.priorityClassName | quote }}
CHILD_POD_SECURITY_CONTEXT: {{ .Values.childPods.podSecurityContext | default dict | toJson | quote }}
CHILD_POD_CONTAINER_SECURITY_CONTEXT: {{ .Values.childPods.securityContext | default dict | toJson | quote }}
BOOK_STORE_POD_SECURITY_CONTEXT: {{ .Values.bookStore.podSecurityContext | default dict | toJson | quote }}
BOOK_STORE_CONTAINER_SECURITY_CONTEXT: {{ .Values.bookStore.securityContext | default dict | toJson | quote }}
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
{{- if .Values.controllers.pet.enabled }}
PETSTORE_ADDRESS: {{ include "echoperator.petstoreAddress" . | quote }}
PETSTORE_TLS: {{ .Values.pet.tls.enabled | quote }}
PETSTORE_TIMEOUT_SECONDS: {{ .Values.pet.timeoutSeconds | quote }}
{{- if include "echoperator.petstoreAuthority" . }}
PETSTORE_CA_FILE: /etc/echoperator/petstore/ca.crt
{{- end }}
{{- end }}
PSQL_HOST: {{ .Values.postgresWriter.host | quote }}
PSQL_PORT: {{ .Values.postgresWriter.port | quote }}
PSQL_DBNAME: {{ .Values.postgresWriter.dbname | quote }}
PSQL_CREDENTIALS_DIR: {{ ternary "/etc/echoperator/postgres" "" (ne .Values.postgresWriter.credentials.existingSecret "") | quote }}
PSQL_SSLMODE: {{ .Values.postgresWriter.tls.mode | quote }}
PSQL_SSLROOTCERT: {{ ternary "/etc/echoperator/postgres/ca.crt" "" (ne .Values.postgresWriter.tls.existingSecret "") | quote }}
PSQL_POOL_SIZE: {{ .Values.postgresWriter.poolSize | quote }}
PSQL_TABLES: {{ .Values.postgresWriter.tables | join "," | quote }}
PSQL_CONNECT_TIMEOUT_SECONDS: {{ .Values.postgresWriter.connectTimeoutSeconds | quote }}
PSQL_STATEMENT_TIMEOUT_SECONDS: {{ .Values.postgresWriter.statementTimeoutSeconds | quote }}
{{- end }}

{{/* The names of the pull secrets, separated by commas. */}}
{{- define "echoperator.pullSecretNames" -}}
{{- $names := list -}}
{{- range .Values.imagePullSecrets }}{{ $names = append $names .name }}{{ end }}
{{- join "," $names }}
{{- end }}

{{/* The names of the enabled controllers, separated by commas. */}}
{{- define "echoperator.controllers" -}}
{{- $names := list -}}
{{- range $name, $controller := .Values.controllers }}
{{- if $controller.enabled }}{{ $names = append $names $name }}{{ end }}
{{- end }}
{{- join "," $names }}
{{- end }}

{{/* The Secrets to mount for the database connection, as volume sources. Empty if there are none. */}}
{{- define "echoperator.postgresSecrets" -}}
{{- if .Values.controllers.postgresWriter.enabled }}
{{- with .Values.postgresWriter.credentials }}
{{- if .existingSecret }}
- secret:
    name: {{ .existingSecret }}
    items:
      - {key: {{ .userKey }}, path: PSQL_USER}
      - {key: {{ .passwordKey }}, path: PSQL_PASSWORD}
{{- end }}
{{- end }}
{{- with .Values.postgresWriter.tls }}
{{- if .existingSecret }}
- secret:
    name: {{ .existingSecret }}
    items:
      - {key: {{ .caKey }}, path: ca.crt}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
