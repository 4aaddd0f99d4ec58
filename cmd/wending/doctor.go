package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"wending/db"
	"wending/db/pg/embedded"
	"wending/db/upkeep"
	"wending/jobs"
	"wending/jobs/agent/guard"
	"wending/jobs/blob"
	"wending/jobs/secret"
	"wending/jobs/tasks"
	"wending/views/paths"
)

type doctorCommand struct{}

// doctor checks what a process needs, and prints a line for each check.
type doctor struct {
	settings *Settings
	out      io.Writer
	failed   int
}

// doctorTime is the time limit for each check of another server.
const doctorTime = 10 * time.Second

// warning is the result of a check that passes, but shows something that is worth a look.
type warning struct{ text string }

func (w warning) Error() string { return w.text }

// Run checks the settings and everything that they name, and prints a remedy for each problem. It changes nothing,
// except that it writes and removes a small file in the store.
func (doctorCommand) Run(ctx context.Context, s *Settings, stdout io.Writer) error {
	d := &doctor{settings: s, out: stdout}
	d.check("version", func() (string, error) { return buildVersion(), nil })
	d.check("settings", d.checkSettings)
	d.check("data folder", d.checkFolder)
	d.checkDatabase(ctx)
	d.check("Redis", d.checkRedis)
	d.check("store of files", func() (string, error) { return d.checkStore(ctx) })
	if d.settings.BackupCron != "" {
		d.check("place of backups", func() (string, error) { return d.checkPlaceOfBackups(ctx) })
	}
	d.check("backup tools", func() (string, error) { return d.checkTools(ctx) })
	d.checkNetwork(ctx)
	if d.failed > 0 {
		return fmt.Errorf("checks that failed: %d", d.failed)
	}
	return nil
}

// check prints the outcome of one check: what was found, a warning, or what to do. It returns false if the check
// failed.
func (d *doctor) check(name string, look func() (found string, err error)) bool {
	found, err := look()
	state, is := "ok", warning{}
	switch {
	case errors.As(err, &is):
		state, found = "warning", is.text
	case err != nil:
		state, found = "FAILED", err.Error()
		d.failed++
	}
	_, _ = fmt.Fprintf(d.out, "%-8s %-18s %s\n", state, name, found)
	return state != "FAILED"
}

func (d *doctor) checkSettings() (string, error) {
	if _, err := d.settings.defaults(); err != nil {
		return "", err
	}
	if _, err := d.settings.publicURL(); err != nil {
		return "", err
	}
	if err := d.settings.checkExposure(); err != nil {
		return "", err
	}
	if (d.settings.DatabaseURL == "") != (d.settings.RedisURL == "") {
		return "", warning{"only one of DATABASE_URL and REDIS_URL is set: 'wending up' starts the other server itself, " +
			"'serve' and 'worker' need both"}
	}
	if d.settings.DatabaseURL != "" && d.settings.SecretKey == "" {
		return "", warning{"SECRET_KEY is not set: the key in DATA_DIR is used, which other machines do not have"}
	}
	return "valid; sign-in: " + d.settings.Auth, nil
}

func (d *doctor) checkFolder() (string, error) {
	folder := d.settings.DataDir
	if _, err := os.Stat(folder); errors.Is(err, os.ErrNotExist) {
		return "", warning{folder + " does not exist yet; the first start creates it"}
	}
	probe, err := os.CreateTemp(folder, ".wending-doctor-*")
	if err != nil {
		return "", fmt.Errorf("this account cannot write to DATA_DIR: %w", err)
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return "", err
	}
	space, err := d.settings.space()
	if err != nil {
		return "", err
	}
	room := fmt.Sprintf("%s: %d%% of the disk used, %d MiB free", folder, space.Percent(), space.Free>>20)
	switch {
	case space.IsFull():
		return "", errors.New(room + ": new tasks and launches are refused; delete tasks or enlarge the disk")
	case space.IsNearlyFull():
		return "", warning{room + ": delete tasks or enlarge the disk soon"}
	}
	return room, nil
}

// checkDatabase checks the configured database, or the one in the data folder.
func (d *doctor) checkDatabase(ctx context.Context) {
	folder := filepath.Join(d.settings.DataDir, "postgres")
	if _, err := os.Stat(filepath.Join(folder, "PG_VERSION")); d.settings.DatabaseURL == "" && err != nil {
		d.check("PostgreSQL", func() (string, error) {
			return "the first start of 'wending up' creates a database", embedded.CheckServer(ctx, folder)
		})
		return
	}
	isThere := d.check("PostgreSQL", func() (found string, err error) {
		err = d.settings.database(ctx, func(url string) error {
			ctx, cancel := context.WithTimeout(ctx, doctorTime)
			defer cancel()
			store, err := db.Open(ctx, url, 2)
			if err != nil {
				return fmt.Errorf("%w: check DATABASE_URL, and that the server accepts connections from here", err)
			}
			defer store.Close() //nolint:errcheck // only read
			found, err = d.describeServer(ctx, store)
			d.checkKey(ctx, store)
			d.checkHosts(ctx, store)
			return err
		})
		return found, err
	})
	if isThere && d.settings.DirectURL != "" {
		d.check("pooler", func() (string, error) {
			ctx, cancel := context.WithTimeout(ctx, doctorTime)
			defer cancel()
			store, err := db.Open(ctx, d.settings.DatabaseURL, 1)
			if err != nil {
				return "", fmt.Errorf("DATABASE_URL: %w", err)
			}
			return "answers", store.Close()
		})
	}
}

// describeServer returns a description of the server, or an error or a warning if its version, schema, connections or
// clock are a problem.
func (d *doctor) describeServer(ctx context.Context, store *db.Store) (string, error) {
	server, err := upkeep.NewMonitor(store).Server(ctx)
	if err != nil {
		return "", err
	}
	found := fmt.Sprintf("PostgreSQL %s, %d of %d connections in use", server.Version, server.Connections,
		server.MaxConnections)
	switch apart := time.Since(server.Now).Abs(); {
	case server.Major < embedded.OldestMajor:
		return "", fmt.Errorf("%s: Wending needs version %d or later", found, embedded.OldestMajor)
	case server.IsStandby:
		return "", errors.New(found + ": this server is a standby, which is read-only; point DATABASE_URL at the primary")
	case apart > 5*time.Second:
		return "", warning{fmt.Sprintf("%s; its clock differs from this machine's by %v: synchronise both (NTP)", found,
			apart.Round(time.Second))}
	case server.MaxConnections-server.Connections < d.settings.MaxConns:
		return "", warning{fmt.Sprintf("%s, but a process may open %d (DATABASE_MAX_CONNECTIONS): lower that, or raise "+
			"max_connections", found, d.settings.MaxConns)}
	}
	if err := store.Ready(ctx); err != nil {
		return "", err
	}
	return found, nil
}

// checkKey checks that the process has the database's key; it creates no key.
func (d *doctor) checkKey(ctx context.Context, store *db.Store) {
	d.check("secret key", func() (string, error) {
		if _, err := d.settings.keptKeys(); d.settings.SecretKey == "" && errors.Is(err, os.ErrNotExist) {
			return "", warning{"neither SECRET_KEY nor " + d.settings.keyFile() + " exists: the first start creates a key"}
		}
		keys, err := d.settings.secretKeys()
		if err != nil {
			return "", err
		}
		if keys.Salt, err = upkeep.NewSecrets(store).Salt(ctx); err != nil {
			return "", warning{"not checked: the database has no tables yet"}
		}
		sealer, err := secret.NewSealer(keys)
		if err != nil {
			return "", err
		}
		isForeign, err := tasks.IsForeign(ctx, store, sealer)
		if err == nil && isForeign {
			err = tasks.ErrForeignKey
		}
		return "it is the database's", err
	})
}

// checkHosts checks that the hosts of saved agents and models accept connections from here, within what the allowlists
// permit. It sends nothing, and prints hosts and ports only, because paths and queries may contain secrets.
func (d *doctor) checkHosts(ctx context.Context, store *db.Store) {
	s := d.settings
	saved, err := upkeep.NewMonitor(store).SavedAddresses(ctx)
	if err != nil { // before the first start, there are no tables
		return
	}
	config := guard.Config{AllowLoopback: listensOnLoopback(s.ListenAddr) && s.Auth == "off"}
	config.Own = s.ownAddresses(s.DatabaseURL, s.DirectURL, s.RedisURL)
	for _, kind := range []struct{ name, variable, allowlist, isKind string }{
		{"agents' hosts", "AGENT_API_ALLOWLIST", s.Allowlist, upkeep.AddressOfAgent},
		{"models' hosts", "MODEL_API_ALLOWLIST", s.ModelList, upkeep.AddressOfProvider},
	} {
		hosts := hostsOf(saved, kind.isKind)
		if len(hosts) == 0 {
			continue
		}
		config.Variable, config.Allowlist = kind.variable, kind.allowlist
		d.check(kind.name, func() (string, error) {
			gate, err := guard.New(config)
			if err != nil {
				return "", err
			}
			return reach(ctx, gate, hosts)
		})
	}
}

// hostsOf returns the distinct host:port of the saved addresses of a kind, in order.
func hostsOf(saved []upkeep.SavedAddress, kind string) (hosts []string) {
	for _, one := range saved {
		address, err := url.Parse(one.URL)
		if err != nil || one.Kind != kind || address.Hostname() == "" {
			continue
		}
		port := address.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443"}[address.Scheme]
		}
		hosts = append(hosts, net.JoinHostPort(address.Hostname(), port))
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// reach connects to all hosts in parallel, for at most doctorTime in total, and names those that it cannot connect to.
func reach(ctx context.Context, gate *guard.Guard, hosts []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	failures := make([]string, len(hosts))
	var group errgroup.Group
	group.SetLimit(32)
	for n, host := range hosts {
		group.Go(func() error {
			connection, err := gate.Dial(ctx, "tcp", host)
			if err != nil {
				failures[n] = fmt.Sprintf("%s: %v", host, err)
				return nil
			}
			return connection.Close()
		})
	}
	if err := group.Wait(); err != nil {
		return "", err
	}
	failures = slices.DeleteFunc(failures, func(text string) bool { return text == "" })
	if len(failures) > 0 {
		const shown = 10
		return "", warning{fmt.Sprintf(
			"%d of %d cannot be reached from here (check name resolution, firewall and allowlist): %s",
			len(failures), len(hosts), strings.Join(failures[:min(shown, len(failures))], "; "))}
	}
	return fmt.Sprintf("%d accept connections", len(hosts)), nil
}

func (d *doctor) checkRedis() (string, error) {
	if d.settings.RedisURL == "" {
		return "REDIS_URL is not set: 'wending up' runs its own", nil
	}
	queue, err := jobs.NewQueue(d.settings.RedisURL)
	if err != nil {
		return "", err
	}
	defer queue.Close() //nolint:errcheck // nothing is pending
	if err := queue.Ping(); err != nil {
		return "", fmt.Errorf("%w: check REDIS_URL, its password and, with rediss://, its certificate (SSL_CERT_FILE)", err)
	}
	return "answers", nil
}

// checkStore writes, reads and removes a file.
func (d *doctor) checkStore(ctx context.Context) (string, error) {
	if d.settings.BlobURL == "" {
		return "BLOB_URL is not set: files of agents are in the data folder", nil
	}
	files, err := d.settings.assetFiles()
	if err != nil {
		return "", err
	}
	return tryPlace(ctx, files, "BLOB_URL")
}

func (d *doctor) checkPlaceOfBackups(ctx context.Context) (string, error) {
	_, place, err := d.settings.backupPlan()
	if err != nil {
		return "", err
	}
	return tryPlace(ctx, place, "BACKUP_TO")
}

// tryPlace writes, reads and removes a file in files, the store whose address the given setting contains.
func tryPlace(ctx context.Context, files blob.Store, setting string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	key := "doctor-" + uuid.NewString()
	if err := files.Put(ctx, key, strings.NewReader("ok"), 2); err != nil {
		return "", fmt.Errorf("%w: check %s and, with S3, the access key", err, setting)
	}
	file, err := files.Open(ctx, key)
	if err != nil {
		return "", err
	}
	return "a file was written, read and removed", errors.Join(file.Close(), files.Delete(ctx, key))
}

func (d *doctor) checkTools(ctx context.Context) (string, error) {
	path, err := embedded.FindTool(ctx, "pg_dump", 0)
	if err != nil {
		if d.settings.BackupCron != "" {
			return "", fmt.Errorf("%w; BACKUP_CRON needs it on every machine with 'up' or 'serve'", err)
		}
		return "", warning{err.Error() + "; only 'wending backup' and 'restore' need it"}
	}
	return path, nil
}

// checkNetwork checks the other servers that the settings name.
func (d *doctor) checkNetwork(ctx context.Context) {
	client := &http.Client{Timeout: doctorTime}
	get := func(address string) (status string, isOK bool, err error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return "", false, err
		}
		response, err := client.Do(request)
		if err != nil {
			return "", false, err
		}
		return response.Status, response.StatusCode == http.StatusOK, response.Body.Close()
	}
	if issuer := strings.TrimRight(d.settings.OIDCIssuer, "/"); issuer != "" {
		d.check("OpenID provider", func() (string, error) {
			address := issuer + "/.well-known/openid-configuration"
			status, isOK, err := get(address)
			if err == nil && !isOK {
				err = fmt.Errorf("%s answers %s: check OIDC_ISSUER", address, status)
			}
			return "answers", err
		})
	}
	if d.settings.Auth == "ldap" {
		d.check("LDAP directory", func() (string, error) {
			directory, err := d.settings.directory()
			if err != nil {
				return "", err
			}
			found, err := directory.Check(ctx)
			if err == nil && directory.IsPlain() {
				err = warning{found + "; passwords travel unencrypted: set LDAP_URL to ldaps://, or LDAP_STARTTLS=true"}
			}
			return found, err
		})
	}
	if address, err := url.Parse(d.settings.SMTPURL); err == nil && address.Host != "" {
		d.check("mail server", func() (string, error) {
			dialer := net.Dialer{Timeout: doctorTime}
			connection, err := dialer.DialContext(ctx, "tcp", address.Host)
			if err != nil {
				return "", fmt.Errorf("%w: check SMTP_URL", err)
			}
			return "accepts connections", connection.Close()
		})
	}
	if d.settings.PublicURL != "" {
		d.check("public address", func() (string, error) {
			status, _, err := get(strings.TrimRight(d.settings.PublicURL, "/") + paths.Live)
			if err != nil {
				return "", warning{err.Error() + ": it may answer elsewhere, or once Wending runs"}
			}
			return "answers " + status, nil
		})
	}
}
