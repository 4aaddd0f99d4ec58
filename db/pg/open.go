// Package pg connects to PostgreSQL: the pool with its timeouts, transactions, classified errors, notifications
// and migrations. It does not depend on any table.
package pg

import (
	"context"
	"database/sql"
	"errors"
	"net"
	neturl "net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// Pool is a pool of connections to one database. No statement run through it needs a session, so the database
// may be behind a pooler that gives every transaction another connection.
type Pool struct{ *sqlx.DB }

// maxIdle is how long a connection is kept without use: other processes may be waiting for it. The pool reuses the
// connection that was returned last, so the ones needed only at busy times reach this age.
const maxIdle = 30 * time.Second

// Open connects to the PostgreSQL server at url (a URL or a key=value string) with at most maxConnections connections.
// It returns ErrUnavailable if the server does not answer.
func Open(ctx context.Context, url string, maxConnections int) (*Pool, error) {
	config, err := readURL(url)
	if err != nil {
		return nil, err
	}
	// A statement is sent together with its arguments: this halves the round trips, and avoids prepared statements,
	// which a pooler might look for on another connection.
	config.BinaryParameters = true
	connector, err := open(config, &patientDialer{Dialer: net.Dialer{Timeout: patience, KeepAlive: patience}})
	if err != nil {
		return nil, err
	}
	pool := &Pool{sqlx.NewDb(sql.OpenDB(connector), "postgres")}
	pool.SetMaxOpenConns(maxConnections)
	pool.SetMaxIdleConns(maxConnections)
	pool.SetConnMaxIdleTime(maxIdle)
	if err := pool.Ping(ctx); err != nil {
		_ = pool.Close()
		return nil, err
	}
	return pool, nil
}

// Ping returns ErrUnavailable if the database does not answer.
func (p *Pool) Ping(ctx context.Context) error {
	return Classify("ping the database", p.PingContext(ctx))
}

// readURL parses an address. Its errors never contain the address, unlike the driver's, which contain even the
// password.
func readURL(url string) (pq.Config, error) {
	if _, err := neturl.Parse(url); err != nil && strings.Contains(url, "://") {
		return pq.Config{},
			errors.New("DATABASE_URL is not a valid URL; special characters in its password must be percent-encoded")
	}
	config, err := pq.NewConfig(url)
	if err != nil {
		return pq.Config{}, errors.New("DATABASE_URL cannot be read")
	}
	return config, nil
}

// Addresses returns the host:port of every server that url (a URL or a key=value string) names; it returns none
// for Unix sockets or an unreadable address.
func Addresses(url string) (addresses []string) {
	config, err := readURL(url)
	if err != nil {
		return nil
	}
	servers := append([]pq.ConfigMultihost{{Host: config.Host, Hostaddr: config.Hostaddr, Port: config.Port}},
		config.Multi...)
	for _, server := range servers {
		port := strconv.Itoa(int(server.Port))
		if server.Hostaddr.IsValid() {
			addresses = append(addresses, net.JoinHostPort(server.Hostaddr.String(), port))
		}
		if server.Host != "" && !strings.HasPrefix(server.Host, "/") && !strings.HasPrefix(server.Host, "@") {
			addresses = append(addresses, net.JoinHostPort(server.Host, port))
		}
	}
	return addresses
}

// patience is how long the server may stay silent within a statement. The driver's contexts do not end a read, so
// without this limit a connection whose other end has disappeared (a pulled cable, a firewall that dropped it)
// would block forever.
const patience = 12 * time.Second

// patientDialer dials connections that time out after patience. After one connection times out, all connections
// opened earlier are closed on their next use: the same network fault probably affects them, and each would otherwise
// wait for its own timeout.
type patientDialer struct {
	net.Dialer
	generation atomic.Int64
}

// Dial implements pq.Dialer.
func (d *patientDialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialTimeout implements pq.Dialer.
func (d *patientDialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.DialContext(ctx, network, address)
}

// DialContext implements pq.DialerContext.
func (d *patientDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	generation := d.generation.Load()
	connection, err := d.Dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &patientConnection{Conn: connection, dialer: d, generation: generation}, nil
}

type patientConnection struct {
	net.Conn
	dialer     *patientDialer
	generation int64
}

func (c *patientConnection) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.dialer.generation.CompareAndSwap(c.generation, c.generation+1)
	}
	return n, err
}

func (c *patientConnection) Write(b []byte) (int, error) {
	if c.dialer.generation.Load() != c.generation {
		return 0, net.ErrClosed
	}
	if err := c.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// ToolEnvironment returns an address for PostgreSQL's own programs, as environment variables: arguments would show
// the password to every account on the machine.
func ToolEnvironment(url string) ([]string, error) {
	config, err := readURL(url)
	if err != nil {
		return nil, err
	}
	var environment []string
	for name, value := range map[string]string{
		"PGHOST": config.Host, "PGUSER": config.User, "PGPASSWORD": config.Password, "PGDATABASE": config.Database,
		"PGSSLMODE":     string(config.SSLMode),
		"PGSSLROOTCERT": config.SSLRootCert, "PGSSLCERT": config.SSLCert, "PGSSLKEY": config.SSLKey,
		"PGPASSFILE": config.Passfile,
	} {
		if value != "" {
			environment = append(environment, name+"="+value)
		}
	}
	if config.Port != 0 {
		environment = append(environment, "PGPORT="+strconv.Itoa(int(config.Port)))
	}
	return environment, nil
}
