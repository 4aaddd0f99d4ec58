package main

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"wending/db"
	"wending/db/people"
	"wending/db/pg"
	"wending/handlers/access"
	"wending/jobs"
	"wending/jobs/blob"
	"wending/jobs/tasks"
)

// Settings are the product's settings; each is a flag and an environment variable.
type Settings struct {
	ListenAddr   string `from:"LISTEN_ADDR" default:"127.0.0.1:8080" help:"Address of the web pages and the API ($LISTEN_ADDR)."`
	DatabaseURL  string `name:"database-url" from:"DATABASE_URL" help:"URL of PostgreSQL; if unset, 'up' starts an embedded one ($DATABASE_URL)."`
	DirectURL    string `name:"database-direct-url" from:"DATABASE_DIRECT_URL" help:"URL of PostgreSQL itself if DATABASE_URL points to a pooler; used for migrations and the listening connection ($DATABASE_DIRECT_URL)."`
	MaxConns     int    `name:"database-max-connections" from:"DATABASE_MAX_CONNECTIONS" default:"15" help:"Connections to PostgreSQL that a process may open; 'serve' opens one more ($DATABASE_MAX_CONNECTIONS)."`
	RedisURL     string `name:"redis-url" from:"REDIS_URL" help:"URL of Redis; if unset, 'up' starts an embedded one ($REDIS_URL)."`
	DataDir      string `from:"DATA_DIR" default:"./data" help:"Folder for uploads, the embedded servers and the generated key ($DATA_DIR)."`
	Concurrency  int    `name:"evaluation-concurrency" from:"EVALUATION_CONCURRENCY" default:"1" help:"Calls that a worker process makes at the same time, and the default concurrency of a task ($EVALUATION_CONCURRENCY)."`
	RateLimit    string `name:"rate-limit-per-agent" from:"RATE_LIMIT_PER_AGENT" default:"1/s" help:"Rate limit of each agent across all workers: N/s, N/m or unlimited ($RATE_LIMIT_PER_AGENT)."`
	RateCeiling  string `name:"rate-limit-ceiling" from:"RATE_LIMIT_CEILING" default:"unlimited" help:"Highest rate limit that a task may have: N/s, N/m or unlimited ($RATE_LIMIT_CEILING)."`
	RunsPerItem  int    `from:"RUNS_PER_ITEM" default:"5" help:"Default number of runs per question ($RUNS_PER_ITEM)."`
	AgentTimeout int    `name:"agent-timeout-seconds" from:"AGENT_TIMEOUT_SECONDS" default:"30" help:"Default timeout of a whole call ($AGENT_TIMEOUT_SECONDS)."`
	AgentRetries int    `name:"agent-max-retries" from:"AGENT_MAX_RETRIES" default:"1" help:"Default number of retries of a call after a timeout or network error, or after the failures in retry_on of a saved agent or model ($AGENT_MAX_RETRIES)."`
	AgentStream  bool   `name:"agent-use-stream" from:"AGENT_USE_STREAM" default:"true" negatable:"" help:"Ask agents to stream by default ($AGENT_USE_STREAM)."`
	Allowlist    string `name:"agent-api-allowlist" from:"AGENT_API_ALLOWLIST" help:"Addresses at which agents may be called: host, host:port, *.domain, IP or CIDR, separated by commas ($AGENT_API_ALLOWLIST)."`
	ModelList    string `name:"model-api-allowlist" from:"MODEL_API_ALLOWLIST" help:"Addresses at which saved models may be called, in the format of AGENT_API_ALLOWLIST ($MODEL_API_ALLOWLIST)."`
	NotifyList   string `name:"notify-allowlist" from:"NOTIFY_ALLOWLIST" help:"Addresses to which notifications may be sent, in the format of AGENT_API_ALLOWLIST ($NOTIFY_ALLOWLIST)."`
	AssetList    string `name:"asset-allowlist" from:"ASSET_ALLOWLIST" help:"Addresses from which files that agents produce may be copied, in the format of AGENT_API_ALLOWLIST ($ASSET_ALLOWLIST)."`
	Sensitive    string `name:"sensitive-patterns" from:"SENSITIVE_PATTERNS" help:"Content that no launch may send to agents and models, one entry per line: words, or RE2 regular expressions between slashes; projects can have their own list ($SENSITIVE_PATTERNS)."`
	AssetBytes   int64  `name:"asset-max-bytes" from:"ASSET_MAX_BYTES" default:"104857600" help:"Size limit of a file that an agent produces, in bytes ($ASSET_MAX_BYTES)."`
	BlobURL      string `name:"blob-url" from:"BLOB_URL" help:"Storage for files that agents produce: file:///folder or s3://bucket/prefix?endpoint=https://host&region=name; if unset, the data folder ($BLOB_URL)."`
	S3KeyID      string `name:"s3-access-key-id" from:"S3_ACCESS_KEY_ID" help:"Access key ID for BLOB_URL ($S3_ACCESS_KEY_ID)."`
	S3Secret     string `name:"s3-secret-access-key" from:"S3_SECRET_ACCESS_KEY" help:"Secret access key for BLOB_URL ($S3_SECRET_ACCESS_KEY)."`
	PublicURL    string `name:"public-url" from:"PUBLIC_URL" help:"Public address of the site, used in the links of messages ($PUBLIC_URL)."`
	SMTPURL      string `name:"smtp-url" from:"SMTP_URL" help:"Mail server: smtp:// or smtps://user:password@host:port ($SMTP_URL)."`
	SMTPFrom     string `name:"smtp-from" from:"SMTP_FROM" help:"Sender address of e-mails ($SMTP_FROM)."`
	AgentAPIKey  string `name:"agent-api-key" from:"AGENT_API_KEY" help:"Bearer token sent to agents that AGENT_API_ALLOWLIST names ($AGENT_API_KEY)."`
	SecretKey    string `from:"SECRET_KEY" help:"Key that encrypts agents' headers, request bodies and query strings; if unset, one is generated in the data folder ($SECRET_KEY)."`
	PreviousKey  string `name:"secret-key-previous" from:"SECRET_KEY_PREVIOUS" help:"Previous SECRET_KEY, which still decrypts what it encrypted ($SECRET_KEY_PREVIOUS)."`
	MaxActive    int    `name:"max-active-tasks" from:"MAX_ACTIVE_TASKS" default:"0" help:"Tasks that may run at the same time; the others wait in the order in which they were started; 0 means no limit ($MAX_ACTIVE_TASKS)."`
	MonthCost    string `name:"max-cost-per-month" from:"MAX_COST_PER_MONTH" help:"Cost limit of all tasks per month (Beijing time), applied to each currency; launches are stopped when it is reached ($MAX_COST_PER_MONTH)."`
	HistoryDays  int    `name:"history-retention-days" from:"HISTORY_RETENTION_DAYS" default:"0" help:"Days for which finished tasks keep replaced runs; current results are always kept; 0 keeps everything ($HISTORY_RETENTION_DAYS)."`
	UploadDays   int    `name:"upload-retention-days" from:"UPLOAD_RETENTION_DAYS" default:"0" help:"Days for which tasks keep their uploaded files after they end; questions are always kept; 0 keeps everything ($UPLOAD_RETENTION_DAYS)."`
	EventDays    int    `name:"event-retention-days" from:"EVENT_RETENTION_DAYS" default:"30" help:"Days for which the events and previews of calls are kept after a task ends; 0 keeps everything ($EVENT_RETENTION_DAYS)."`
	BackupCron   string `from:"BACKUP_CRON" help:"When 'up' and 'serve' make backups: a cron expression in Beijing time, such as 0 3 * * *; if unset, none are made ($BACKUP_CRON)."`
	BackupTo     string `from:"BACKUP_TO" help:"Where scheduled backups are kept: a folder, or s3://bucket/prefix?endpoint=https://host&region=name with the access key of BLOB_URL ($BACKUP_TO)."`
	BackupKeep   int    `from:"BACKUP_KEEP" default:"7" help:"Number of scheduled backups that are kept; older ones are removed after a new one was checked ($BACKUP_KEEP)."`
	DefaultLang  string `from:"DEFAULT_LANG" default:"zh-CN" enum:"zh-CN,en" help:"Default language: zh-CN or en ($DEFAULT_LANG)."`
	AllowedHosts string `from:"ALLOWED_HOSTS" help:"Host names of this site besides local names and IP addresses, separated by commas ($ALLOWED_HOSTS)."`
	WithoutLogin bool   `name:"allow-without-login" from:"ALLOW_WITHOUT_LOGIN" help:"Listen beyond loopback without sign-in (AUTH=off); requires ALLOWED_HOSTS ($ALLOW_WITHOUT_LOGIN)."`
	Auth         string `from:"AUTH" default:"off" enum:"off,local,oidc,ldap" help:"off: no sign-in; local: user name and password; oidc: OpenID Connect; ldap: user name and password of an LDAP directory ($AUTH)."`
	SecondFactor bool   `name:"require-second-factor" from:"REQUIRE_SECOND_FACTOR" help:"With AUTH=local: every account must add a passkey and use it to sign in ($REQUIRE_SECOND_FACTOR)."`
	OIDCIssuer   string `name:"oidc-issuer" from:"OIDC_ISSUER" help:"Address of the OpenID Connect provider ($OIDC_ISSUER)."`
	OIDCClient   string `name:"oidc-client-id" from:"OIDC_CLIENT_ID" help:"Client ID of this site at the provider ($OIDC_CLIENT_ID)."`
	OIDCSecret   string `name:"oidc-client-secret" from:"OIDC_CLIENT_SECRET" help:"Client secret of this site at the provider ($OIDC_CLIENT_SECRET)."`
	OIDCGroups   string `name:"oidc-group-roles" from:"OIDC_GROUP_ROLES" help:"Roles of the provider's groups: group=role or group=role@project, separated by commas; * means everyone ($OIDC_GROUP_ROLES)."`
	LDAPURL      string `name:"ldap-url" from:"LDAP_URL" help:"Address of the LDAP directory: ldaps://host or ldap://host ($LDAP_URL)."`
	LDAPStartTLS bool   `name:"ldap-starttls" from:"LDAP_STARTTLS" default:"true" negatable:"" help:"Encrypt connections to ldap:// addresses with StartTLS, or do not connect ($LDAP_STARTTLS)."`
	LDAPCAFile   string `name:"ldap-ca-file" from:"LDAP_CA_FILE" help:"Certificate authorities (PEM) of the LDAP directory; if unset, the system's ($LDAP_CA_FILE)."`
	LDAPBindDN   string `name:"ldap-bind-dn" from:"LDAP_BIND_DN" help:"Account that searches the LDAP directory; if unset, it is searched anonymously ($LDAP_BIND_DN)."`
	LDAPPassword string `name:"ldap-bind-password" from:"LDAP_BIND_PASSWORD" help:"Password of LDAP_BIND_DN ($LDAP_BIND_PASSWORD)."`
	LDAPBaseDN   string `name:"ldap-base-dn" from:"LDAP_BASE_DN" help:"Where people are in the LDAP directory ($LDAP_BASE_DN)."`
	LDAPUsers    string `name:"ldap-user-filter" from:"LDAP_USER_FILTER" help:"Filter that finds the entry of {name}; if unset, by uid, sAMAccountName or mail ($LDAP_USER_FILTER)."`
	LDAPGroupDN  string `name:"ldap-group-base-dn" from:"LDAP_GROUP_BASE_DN" help:"Where the groups are that give roles; if unset, LDAP_BASE_DN ($LDAP_GROUP_BASE_DN)."`
	LDAPGroups   string `name:"ldap-group-filter" from:"LDAP_GROUP_FILTER" help:"Filter that finds the groups of the entry {dn} with the uid {name}; if unset, by member, uniqueMember or memberUid ($LDAP_GROUP_FILTER)."`
	LDAPRoles    string `name:"ldap-group-roles" from:"LDAP_GROUP_ROLES" help:"Roles of the LDAP directory's groups, in the format of OIDC_GROUP_ROLES ($LDAP_GROUP_ROLES)."`
	Proxies      string `name:"trusted-proxies" from:"TRUSTED_PROXIES" help:"Addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted, separated by commas ($TRUSTED_PROXIES)."`
	TLSCert      string `name:"tls-cert-file" from:"TLS_CERT_FILE" help:"Certificate (PEM) for HTTPS without a proxy ($TLS_CERT_FILE)."`
	TLSKey       string `name:"tls-key-file" from:"TLS_KEY_FILE" help:"Private key (PEM) of the certificate ($TLS_KEY_FILE)."`
	HSTSNames    bool   `name:"hsts-include-subdomains" from:"HSTS_INCLUDE_SUBDOMAINS" default:"true" negatable:"" help:"With HTTPS, include subdomains in Strict-Transport-Security ($HSTS_INCLUDE_SUBDOMAINS)."`
	AuditDays    int    `name:"audit-retention-days" from:"AUDIT_RETENTION_DAYS" default:"0" help:"Days for which audit entries are kept; 0 keeps everything ($AUDIT_RETENTION_DAYS)."`
	ScheduleMin  int    `name:"schedule-min-minutes" from:"SCHEDULE_MIN_MINUTES" default:"5" help:"Minimum minutes between two runs of a schedule; 0 and 1 allow every minute ($SCHEDULE_MIN_MINUTES)."`
	ShutdownSecs int    `name:"shutdown-timeout-seconds" from:"SHUTDOWN_TIMEOUT_SECONDS" default:"25" help:"Seconds within which a process ends after SIGTERM; calls in flight may finish until 5 seconds before that ($SHUTDOWN_TIMEOUT_SECONDS)."`
	MetricsAddr  string `from:"METRICS_ADDR" help:"Address of a worker's /metrics, /livez and /readyz; if unset, they are not served ($METRICS_ADDR)."`
	MCP          string `name:"mcp" from:"MCP" default:"off" enum:"off,on" help:"on: offer tools to assistants at /mcp, with the tokens of the API ($MCP)."`
	OTLPReceiver bool   `name:"otlp-receiver" from:"OTLP_RECEIVER" help:"Receive agents' spans (OTLP over HTTP) at /v1/traces, with the tokens of the API ($OTLP_RECEIVER)."`
	OTLPEndpoint string `name:"otel-exporter-otlp-endpoint" from:"OTEL_EXPORTER_OTLP_ENDPOINT" help:"Collector to which spans of requests and calls are exported (OTLP over HTTP), such as http://127.0.0.1:4318; if unset, none are ($OTEL_EXPORTER_OTLP_ENDPOINT)."`
	OTLPHeaders  string `name:"otel-exporter-otlp-headers" from:"OTEL_EXPORTER_OTLP_HEADERS" help:"Headers for the collector: name=value, separated by commas ($OTEL_EXPORTER_OTLP_HEADERS)."`
	SentryDSN    string `name:"sentry-dsn" from:"SENTRY_DSN" help:"Sentry DSN to which internal errors are reported; if unset, they are only logged ($SENTRY_DSN)."`
	LogFormat    string `from:"LOG_FORMAT" default:"text" enum:"text,json" help:"Log format: text or json ($LOG_FORMAT)."`
	LogLevel     string `from:"LOG_LEVEL" default:"info" enum:"debug,info,warn,error" help:"Log level: debug, info, warn or error ($LOG_LEVEL)."`
}

// defaults checks the settings of tasks and returns them.
func (s Settings) defaults() (tasks.Settings, error) {
	for _, number := range []struct {
		name            string
		is, least, most int
	}{
		{"EVALUATION_CONCURRENCY", s.Concurrency, 1, 1024},
		{"DATABASE_MAX_CONNECTIONS", s.MaxConns, 2, 1000},
		{"RUNS_PER_ITEM", s.RunsPerItem, 1, tasks.MaxRuns},
		{"AGENT_TIMEOUT_SECONDS", s.AgentTimeout, 1, tasks.MaxTimeout},
		{"AGENT_MAX_RETRIES", s.AgentRetries, 0, tasks.MaxRetries},
		{"MAX_ACTIVE_TASKS", s.MaxActive, 0, 10_000},
		{"HISTORY_RETENTION_DAYS", s.HistoryDays, 0, 36500},
		{"UPLOAD_RETENTION_DAYS", s.UploadDays, 0, 36500},
		{"EVENT_RETENTION_DAYS", s.EventDays, 0, 36500},
		{"AUDIT_RETENTION_DAYS", s.AuditDays, 0, 36500},
		{"BACKUP_KEEP", s.BackupKeep, 1, 1000},
		{"SCHEDULE_MIN_MINUTES", s.ScheduleMin, 0, 24 * 60},
		{"SHUTDOWN_TIMEOUT_SECONDS", s.ShutdownSecs, 6, 3600},
	} {
		if number.is < number.least || number.is > number.most {
			return tasks.Settings{}, fmt.Errorf("%s is %d, but must be between %d and %d", number.name, number.is, number.least,
				number.most)
		}
	}
	if s.AssetBytes < 1 {
		return tasks.Settings{}, fmt.Errorf("ASSET_MAX_BYTES is %d, but must be at least 1", s.AssetBytes)
	}
	for _, text := range s.sensitivePatterns() {
		if _, err := people.ParsePattern(text); err != nil {
			return tasks.Settings{}, fmt.Errorf("SENSITIVE_PATTERNS: %q: %w", text, err)
		}
	}
	if _, _, err := s.backupPlan(); err != nil {
		return tasks.Settings{}, err
	}
	if _, err := tasks.ParseRate(s.RateLimit); err != nil {
		return tasks.Settings{}, fmt.Errorf("RATE_LIMIT_PER_AGENT is %q: %w", s.RateLimit, err)
	}
	if s.MonthCost != "" && !db.IsCost(s.MonthCost) {
		return tasks.Settings{}, fmt.Errorf("MAX_COST_PER_MONTH is %q, but must be a number such as 200 or 99.5", s.MonthCost)
	}
	if _, err := tasks.ParseRate(s.RateCeiling); err != nil {
		return tasks.Settings{}, fmt.Errorf("RATE_LIMIT_CEILING is %q: %w", s.RateCeiling, err)
	}
	return tasks.Settings{
		RunsPerItem: s.RunsPerItem, TimeoutSeconds: s.AgentTimeout, MaxRetries: s.AgentRetries,
		Concurrency: min(s.Concurrency, tasks.MaxConcurrency), UseStream: s.AgentStream, RateLimit: s.RateLimit,
	}, nil
}

// drainTime returns how long calls and requests in flight may finish after SIGTERM. The rest of the time is for storing
// what calls returned until then, and for the embedded servers.
func (s *Settings) drainTime() time.Duration { return time.Duration(s.ShutdownSecs-5) * time.Second }

// assetFiles returns the store of the files that agents produce.
func (s Settings) assetFiles() (blob.Store, error) {
	address := s.BlobURL
	if address == "" {
		folder, err := filepath.Abs(filepath.Join(s.DataDir, "assets"))
		if err != nil {
			return nil, err
		}
		address = (&url.URL{Scheme: "file", Path: folder}).String()
	}
	files, err := blob.Open(address, blob.Credentials{AccessKeyID: s.S3KeyID, SecretAccessKey: s.S3Secret})
	if err != nil {
		return nil, fmt.Errorf("BLOB_URL: %w", err)
	}
	return files, nil
}

// ownAddresses returns the host:port of the servers at the given addresses and of the others that the settings name. No
// agent may be called there.
func (s Settings) ownAddresses(databaseURL, directURL, redisURL string) []string {
	own := slices.Concat(pg.Addresses(databaseURL), pg.Addresses(directURL), jobs.Addresses(redisURL),
		blob.Addresses(s.BlobURL))
	if s.MetricsAddr != "" {
		own = append(own, s.MetricsAddr)
	}
	return own
}

// publicURL checks PUBLIC_URL and returns it without a trailing slash.
func (s Settings) publicURL() (string, error) {
	if s.PublicURL == "" {
		return "", nil
	}
	u, err := url.Parse(s.PublicURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" ||
		u.User != nil {
		return "", fmt.Errorf("PUBLIC_URL is %q, but must be an address such as https://wending.example", s.PublicURL)
	}
	return strings.TrimRight(s.PublicURL, "/"), nil
}

// hosts returns the names in ALLOWED_HOSTS.
func (s Settings) hosts() []string {
	return strings.FieldsFunc(strings.ToLower(s.AllowedHosts), func(r rune) bool { return r == ',' || r == ' ' })
}

// listensOnLoopback reports whether only this machine can reach the pages.
func listensOnLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && access.IsLoopback(host)
}

// sensitivePatterns returns the lines of SENSITIVE_PATTERNS that are not blank.
func (s Settings) sensitivePatterns() (texts []string) {
	for line := range strings.Lines(s.Sensitive) {
		if line = strings.TrimSpace(line); line != "" {
			texts = append(texts, line)
		}
	}
	return texts
}
