package access

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-ldap/ldap/v3"

	"wending/db/people"
)

// DirectoryConfig are the settings of an LDAP directory; the comments name the environment variables.
type DirectoryConfig struct {
	URL string // LDAP_URL: ldaps://host or ldap://host, optionally with a port
	// StartTLS (LDAP_STARTTLS) encrypts connections to ldap:// addresses before anything else is sent.
	StartTLS bool
	// CAFile (LDAP_CA_FILE) is a PEM file of the certificate authorities to trust instead of the system's; empty means the
	// system's.
	CAFile string
	// BindDN and BindPassword (LDAP_BIND_DN, LDAP_BIND_PASSWORD) are the account that searches; without them the directory
	// is searched anonymously.
	BindDN, BindPassword string
	BaseDN               string // LDAP_BASE_DN: the base below which people are searched
	// UserFilter (LDAP_USER_FILTER) finds the entry of a person; {name} is what the person typed. Empty means
	// DefaultUserFilter.
	UserFilter string
	// GroupBaseDN (LDAP_GROUP_BASE_DN) is the base of the groups that grant roles; groups elsewhere are ignored, even
	// those in memberOf. Empty means BaseDN.
	GroupBaseDN string
	// GroupFilter (LDAP_GROUP_FILTER) finds the groups of an entry; {dn} is its DN and {name} its uid or sAMAccountName.
	// Empty means DefaultGroupFilter.
	GroupFilter string
	GroupRoles  string // LDAP_GROUP_ROLES: the roles of groups, by the first value in their DN
}

// The filters that are used if none are set.
const (
	DefaultUserFilter  = "(|(uid={name})(sAMAccountName={name})(mail={name}))"
	DefaultGroupFilter = "(|(member={dn})(uniqueMember={dn})(memberUid={name}))"
)

// Limits on requests to a directory.
const (
	directoryTime = 10 * time.Second // for all requests of one sign-in or check together
	maxGroups     = 1000             // groups of one person that a search may return
	// maxLogin is the maximum length, in bytes, of the name that a person types, which may be an e-mail address.
	maxLogin = 254
)

// Directory signs people in with an LDAP directory.
type Directory struct {
	DirectoryConfig
	address   string // host:port
	tls       *tls.Config
	isSecure  bool // encrypted from the first byte on (ldaps)
	groupBase *ldap.DN
	roles     []Grant
}

// NewDirectory returns the directory with the given settings, or an error that says what is wrong with them. It does
// not connect.
func NewDirectory(config DirectoryConfig) (*Directory, error) {
	d := &Directory{DirectoryConfig: config}
	d.UserFilter = cmp.Or(d.UserFilter, DefaultUserFilter)
	d.GroupFilter = cmp.Or(d.GroupFilter, DefaultGroupFilter)
	d.GroupBaseDN = cmp.Or(d.GroupBaseDN, d.BaseDN)
	if err := d.checkAddress(); err != nil {
		return nil, err
	}
	if err := d.readAuthorities(); err != nil {
		return nil, err
	}
	if (d.BindDN == "") != (d.BindPassword == "") {
		return nil, errors.New("LDAP_BIND_DN and LDAP_BIND_PASSWORD must be set together: servers accept an empty password " +
			"without checking it")
	}
	if d.BaseDN == "" {
		return nil, errors.New("AUTH=ldap needs LDAP_BASE_DN, such as ou=people,dc=example,dc=com")
	}
	for _, one := range []struct{ setting, dn string }{{"LDAP_BASE_DN", d.BaseDN}, {"LDAP_BIND_DN", d.BindDN}} {
		// Active Directory also lets accounts bind as name@domain or DOMAIN\name.
		if _, err := ldap.ParseDN(one.dn); err != nil && (one.setting != "LDAP_BIND_DN" || strings.Contains(one.dn, "=")) {
			return nil, fmt.Errorf("%s is %q, but must be a DN such as ou=people,dc=example,dc=com", one.setting, one.dn)
		}
	}
	var err error
	if d.groupBase, err = ldap.ParseDN(d.GroupBaseDN); err != nil {
		return nil, fmt.Errorf("LDAP_GROUP_BASE_DN is %q, but must be a DN such as ou=groups,dc=example,dc=com",
			d.GroupBaseDN)
	}
	if err := checkFilter("LDAP_USER_FILTER", d.UserFilter, "{name}"); err != nil {
		return nil, err
	}
	if err := checkFilter("LDAP_GROUP_FILTER", d.GroupFilter, "{dn}", "{name}"); err != nil {
		return nil, err
	}
	if d.roles, err = ParseGrants("LDAP_GROUP_ROLES", d.GroupRoles); err != nil {
		return nil, err
	}
	for n := range d.roles { // directories compare names without regard to case
		d.roles[n].Group = strings.ToLower(d.roles[n].Group)
	}
	return d, nil
}

// checkAddress parses the URL into the fields for connections. Errors do not contain the URL, because it may contain a
// password.
func (d *Directory) checkAddress() error {
	u, err := url.Parse(d.URL)
	if err != nil || u.Scheme != "ldap" && u.Scheme != "ldaps" || u.Hostname() == "" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return errors.New("AUTH=ldap needs LDAP_URL, the scheme and host of the directory only, such as " +
			"ldaps://ldap.example.com or ldap://ldap.example.com:389")
	}
	d.isSecure = u.Scheme == "ldaps"
	d.address = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), map[bool]string{true: "636", false: "389"}[d.isSecure]))
	d.tls = &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}
	return nil
}

func (d *Directory) readAuthorities() error {
	if d.CAFile == "" {
		return nil
	}
	content, err := os.ReadFile(d.CAFile)
	if err != nil {
		return fmt.Errorf("LDAP_CA_FILE: %w", err)
	}
	d.tls.RootCAs = x509.NewCertPool()
	if !d.tls.RootCAs.AppendCertsFromPEM(content) {
		return fmt.Errorf("LDAP_CA_FILE: %s holds no certificate in PEM form", d.CAFile)
	}
	return nil
}

// checkFilter returns an error unless a filter is valid and contains one of the placeholders.
func checkFilter(setting, filter string, placeholders ...string) error {
	if !slices.ContainsFunc(placeholders, func(one string) bool { return strings.Contains(filter, one) }) {
		return fmt.Errorf("%s is %q, but must contain %s", setting, filter, strings.Join(placeholders, " or "))
	}
	if _, err := ldap.CompileFilter(fill(filter, "x", "cn=x")); err != nil {
		return fmt.Errorf("%s is %q, which is not an LDAP filter: %w", setting, filter, err)
	}
	return nil
}

// fill puts a name and a DN into a filter, escaped so that they stay values (RFC 4515).
func fill(filter, name, dn string) string {
	return strings.NewReplacer("{name}", ldap.EscapeFilter(name), "{dn}", ldap.EscapeFilter(dn)).Replace(filter)
}

// IsPlain reports whether passwords travel to the directory unencrypted.
func (d *Directory) IsPlain() bool { return !d.isSecure && !d.StartTLS }

// issuer is the same for all directories, because the ids of entries are globally unique. A directory can therefore
// move to another server or be searched from another base without losing its accounts.
func (d *Directory) issuer() string { return "ldap" }

func (d *Directory) grants() []Grant { return d.roles }

// renewsWithin is as long as a session may be idle, so that people need not type their password again after an idle
// hour.
func (d *Directory) renewsWithin() time.Duration { return people.IdleLimit }

// The reasons why no entry is found for a person.
var (
	errNobody  = errors.New("no entry matches, or it is locked")
	errSeveral = errors.New("more than one entry matches: make LDAP_USER_FILTER or LDAP_BASE_DN stricter")
)

// consultation is a connection to the directory, authenticated as the service account, for requests about one person.
type consultation struct {
	*Directory
	conn  *ldap.Conn
	entry *ldap.Entry
	// end closes the connection.
	end func()
}

// consult connects and finds the entry of the person with a login name. It returns errNobody or errSeveral unless there
// is exactly one. All requests until end is called must be answered within directoryTime.
func (d *Directory) consult(ctx context.Context, login string) (about *consultation, err error) {
	about, err = d.connect(ctx)
	if err == nil {
		about.entry, err = about.find(fill(d.UserFilter, login, ""))
	}
	if err != nil {
		if about != nil {
			about.end()
		}
		return nil, err
	}
	return about, nil
}

func (d *Directory) connect(ctx context.Context) (*consultation, error) {
	ctx, cancel := context.WithTimeout(ctx, directoryTime)
	var dialer interface {
		DialContext(ctx context.Context, network, address string) (net.Conn, error)
	} = &net.Dialer{}
	if d.isSecure {
		dialer = &tls.Dialer{Config: d.tls}
	}
	line, err := dialer.DialContext(ctx, "tcp", d.address)
	if err != nil {
		cancel()
		return nil, err
	}
	conn := ldap.NewConn(line, d.isSecure)
	conn.SetTimeout(directoryTime)
	conn.Start()
	stop := context.AfterFunc(ctx, func() { _ = line.Close() }) // ends a request in progress
	about := &consultation{Directory: d, conn: conn, end: func() {
		stop()
		_ = conn.Close()
		cancel()
	}}
	if d.StartTLS && !d.isSecure {
		err = conn.StartTLS(d.tls)
	}
	if err == nil {
		err = about.bindService()
	}
	if err != nil {
		about.end()
		return nil, err
	}
	return about, nil
}

// bindService authenticates as the service account or, if there is none, binds anonymously.
func (a *consultation) bindService() error {
	if a.BindDN == "" {
		return a.conn.UnauthenticatedBind("")
	}
	if err := a.conn.Bind(a.BindDN, a.BindPassword); err != nil {
		return fmt.Errorf("sign in as LDAP_BIND_DN: %w", err)
	}
	return nil
}

// ids are the attributes that identify an entry permanently, even if it is renamed; objectGUID is binary.
var ids = []string{"entryUUID", "objectGUID", "nsUniqueId", "ipaUniqueID"}

// attributes lists the LDAP attributes to request for a person's entry.
var attributes = append([]string{"uid", "sAMAccountName", "displayName", "cn", "mail", "memberOf", "userAccountControl",
	"pwdAccountLockedTime", "nsAccountLock"}, ids...)

// search returns at most limit entries; if there are more, err has the code ldap.LDAPResultSizeLimitExceeded. Aliases
// and referrals are not followed, because they may point outside the base.
func (a *consultation) search(base, filter string, limit int, attributes []string) ([]*ldap.Entry, error) {
	found, err := a.conn.Search(ldap.NewSearchRequest(base, ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, limit,
		int(directoryTime/time.Second), false, filter, attributes, nil))
	if found == nil {
		return nil, err
	}
	return found.Entries, err
}

func (a *consultation) find(filter string) (*ldap.Entry, error) {
	entries, err := a.search(a.BaseDN, filter, 2, attributes)
	switch {
	case ldap.IsErrorWithCode(err, ldap.LDAPResultSizeLimitExceeded), err == nil && len(entries) > 1:
		return nil, errSeveral
	case err != nil:
		return nil, fmt.Errorf("search LDAP_BASE_DN: %w", err)
	case len(entries) == 0 || isLocked(entries[0]):
		return nil, errNobody
	}
	return entries[0], nil
}

// isLocked reports whether an administrator of the directory has locked an entry: in Active Directory, in OpenLDAP with
// password policies, or in 389 Directory Server and FreeIPA.
func isLocked(entry *ldap.Entry) bool {
	const disabled = 2 // ADS_UF_ACCOUNTDISABLE
	flags, _ := strconv.ParseInt(entry.GetEqualFoldAttributeValue("userAccountControl"), 10, 64)
	return flags&disabled != 0 || entry.GetEqualFoldAttributeValue("pwdAccountLockedTime") == "000001010000Z" ||
		strings.EqualFold(entry.GetEqualFoldAttributeValue("nsAccountLock"), "true")
}

// subject returns the text that identifies the entry, such as entryUUID=…; empty if the directory shows no id.
func (a *consultation) subject() string {
	for _, attribute := range ids {
		raw := a.entry.GetEqualFoldRawAttributeValue(attribute)
		switch {
		case len(raw) == 0:
		case attribute == "objectGUID":
			return attribute + "=" + hex.EncodeToString(raw)
		default:
			return attribute + "=" + strings.ToLower(string(raw))
		}
	}
	return ""
}

// errUnidentified means that no id of an entry can be read. A DN cannot be used instead, because another person may get
// the same DN later.
var errUnidentified = errors.New("the entry has none of " + strings.Join(ids, ", ") +
	" that LDAP_BIND_DN can read: allow it to read one")

// proves reports whether password belongs to the entry. The consultation cannot be used afterwards, because its
// connection is no longer authenticated as the service account.
func (a *consultation) proves(password string) (bool, error) {
	if password == "" { // servers accept an empty password without checking it (RFC 4513, section 5.1.2)
		return false, nil
	}
	err := a.conn.Bind(a.entry.DN, password)
	switch {
	case err == nil:
		return true, nil
	case ldap.IsErrorAnyOf(err, ldap.LDAPResultInvalidCredentials, ldap.LDAPResultUnwillingToPerform,
		ldap.LDAPResultInsufficientAccessRights, ldap.LDAPResultInappropriateAuthentication,
		ldap.LDAPResultConstraintViolation, ldap.LDAPResultNoSuchObject):
		return false, nil
	}
	return false, fmt.Errorf("check the password: %w", err)
}

// login returns the name by which groups of POSIX accounts list the person; it may be empty.
func (a *consultation) login() string {
	return cmp.Or(a.entry.GetEqualFoldAttributeValue("uid"), a.entry.GetEqualFoldAttributeValue("sAMAccountName"))
}

// claims returns what the directory states about the entry, with its groups.
func (a *consultation) claims() (said claims, err error) {
	of := a.entry.GetEqualFoldAttributeValue
	said = claims{Subject: a.subject(), Username: a.login(), Name: cmp.Or(of("displayName"), of("cn")), Email: of("mail")}
	if said.Subject == "" {
		return said, errUnidentified
	}
	const none = "1.1" // only the DN (RFC 4511, section 4.5.1.8)
	entries, err := a.search(a.GroupBaseDN, fill(a.GroupFilter, a.login(), a.entry.DN), maxGroups, []string{none})
	if err != nil {
		return said, fmt.Errorf("search LDAP_GROUP_BASE_DN: %w", err)
	}
	groups := a.entry.GetEqualFoldAttributeValues("memberOf")
	for _, entry := range entries {
		groups = append(groups, entry.DN)
	}
	for _, dn := range groups {
		parsed, err := ldap.ParseDN(dn)
		if err != nil || !a.groupBase.AncestorOfFold(parsed) { // others may create such groups outside the base
			continue
		}
		said.Groups = append(said.Groups, strings.ToLower(parsed.RDNs[0].Attributes[0].Value))
	}
	return said, nil
}

func (d *Directory) askAgain(ctx context.Context, kept tokens) (said claims, next tokens, err error) {
	about, err := d.consult(ctx, kept.Login)
	if errors.Is(err, errNobody) || errors.Is(err, errSeveral) {
		err = fmt.Errorf("%w: %w", errEnded, err)
	}
	if err != nil {
		return said, kept, err
	}
	defer about.end()
	said, err = about.claims()
	return said, kept, err
}

// Check connects to the directory, finds any person and reads that person's groups. It returns a summary of what it
// found, or an error that says which settings to check.
func (d *Directory) Check(ctx context.Context) (found string, err error) {
	about, err := d.connect(ctx)
	if err != nil {
		return "", fmt.Errorf("%w: check LDAP_URL, LDAP_CA_FILE, LDAP_BIND_DN and LDAP_BIND_PASSWORD", err)
	}
	defer about.end()
	anybody := strings.ReplaceAll(d.UserFilter, "{name}", "*")
	entries, err := about.search(d.BaseDN, anybody, 1, attributes)
	if err != nil && !ldap.IsErrorWithCode(err, ldap.LDAPResultSizeLimitExceeded) {
		return "", fmt.Errorf("search LDAP_BASE_DN: %w", err)
	}
	if len(entries) == 0 {
		return "", errors.New("it shows LDAP_BIND_DN nobody below LDAP_BASE_DN who matches LDAP_USER_FILTER")
	}
	about.entry = entries[0]
	said, err := about.claims()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("answers; one person was found, in %d groups below LDAP_GROUP_BASE_DN", len(said.Groups)), nil
}
