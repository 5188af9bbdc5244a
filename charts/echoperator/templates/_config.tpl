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
# A release of an older chart lacks the value (--reuse-values).
ECHO_RESOURCES: {{ .Values.echo.resources | default (.Files.Get "files/defaults.yaml" | fromYaml).echo.resources | toJson | quote }}
POD_SET_IMAGE: {{ .Values.podSet.image | list . | include "echoperator.mirrored" | quote }}
CHILD_POD_LABELS: {{ .Values.childPods.labels | default dict | toJson | quote }}
CHILD_POD_ANNOTATIONS: {{ .Values.childPods.annotations | default dict | toJson | quote }}
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
HA_WARM_STANDBY: {{ .Values.ha.warmStandby | default false | quote }}
HA_LEASE_LOCK_NAME: {{ include "echoperator.fullname" . | quote }}
HA_LEASE_DURATION_SECONDS: {{ .Values.ha.leaderElection.leaseDurationSeconds | quote }}
HA_RENEW_DEADLINE_SECONDS: {{ .Values.ha.leaderElection.renewDeadlineSeconds | quote }}
HA_RETRY_PERIOD_SECONDS: {{ .Values.ha.leaderElection.retryPeriodSeconds | quote }}
METRICS_ENABLED: {{ .Values.monitoring.enabled | quote }}
METRICS_PATH: {{ .Values.monitoring.path | quote }}
METRICS_PORT: {{ .Values.monitoring.port | quote }}
HEALTH_PORT: {{ .Values.health.port | quote }}
# The root filesystem is read-only. A container runtime mounts this folder for each pod.
EXPLAIN_DIR: {{ ternary "/dev/shm" "" .Values.explain.enabled | quote }}
{{- if .Values.controllers.pet.enabled }}
PETSTORE_ADDRESS: {{ include "echoperator.petstoreAddress" . | quote }}
PETSTORE_TLS: {{ include "echoperator.petstoreTls" . | default "false" | quote }}
PETSTORE_TIMEOUT_SECONDS: {{ .Values.pet.timeoutSeconds | quote }}
{{- if include "echoperator.petstoreClientSecret" . }}
PETSTORE_CA_FILE: /etc/echoperator/petstore/ca.crt
{{- end }}
{{- if include "echoperator.petstoreHasClientCertificate" . }}
PETSTORE_CERT_FILE: /etc/echoperator/petstore/tls.crt
PETSTORE_KEY_FILE: /etc/echoperator/petstore/tls.key
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

{{/*
The kinds whose controllers are off, with the number of their objects, as a list. A controller is named like its kind, with a lower-case
first letter. Without a cluster the numbers are 0. Who installs the
roles of the chart may list these objects, since the roles grant that.
*/}}
{{- define "echoperator.disabledKinds" -}}
{{- $also := dict "pet" "and petstore.enabled or pet.address" "postgresWriter" "postgresWriter.host and postgresWriter.credentials.existingSecret" -}}
{{- $namespaces := include "echoperator.watchedNamespaces" . | fromYamlArray | default (list "") -}}
{{- $kinds := list -}}
{{- range $path, $_ := .Files.Glob "files/crds/*.yaml" -}}
{{- $spec := ($.Files.Get $path | fromYaml).spec -}}
{{- $controller := untitle $spec.names.kind -}}
{{- if not (get $.Values.controllers $controller).enabled -}}
{{- $version := printf "%s/%s" $spec.group (first $spec.versions).name -}}
{{- $count := 0 -}}
{{- if and $.Values.rbac.create ($.Capabilities.APIVersions.Has (printf "%s/%s" $version $spec.names.kind)) -}}
{{- range $namespaces }}{{ $count = add $count (len ((lookup $version $spec.names.kind . "").items | default list)) }}{{ end -}}
{{- end -}}
{{- $kinds = append $kinds (dict "kind" $spec.names.kind "plural" $spec.names.plural "controller" $controller "also" (get $also $controller) "count" $count) -}}
{{- end -}}
{{- end -}}
{{- toYaml $kinds }}
{{- end }}

{{/* The Secrets to mount for the database connection, as volume sources. Empty if there are none. */}}
{{- define "echoperator.postgresSecrets" -}}
{{- if .Values.controllers.postgresWriter.enabled }}
{{- with .Values.postgresWriter.credentials }}
{{- if .existingSecret }}
- secret:
    name: {{ .existingSecret | quote }}
    items:
      - {key: {{ .userKey | quote }}, path: PSQL_USER}
      - {key: {{ .passwordKey | quote }}, path: PSQL_PASSWORD}
{{- end }}
{{- end }}
{{- with .Values.postgresWriter.tls }}
{{- if .existingSecret }}
- secret:
    name: {{ .existingSecret | quote }}
    items:
      - {key: {{ .caKey | quote }}, path: ca.crt}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
