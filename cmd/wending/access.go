package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"wending/db/people"
	"wending/handlers"
	"wending/handlers/access"
)

// access returns the sign-in configuration for pages served at the given listening address.
func (s *Settings) access(listening string) (config handlers.Access, err error) {
	config.AuditDays, config.HSTSWithoutSubdomains = s.AuditDays, !s.HSTSNames
	if config.Trusted, err = handlers.ParseTrusted(s.Proxies); err != nil {
		return config, err
	}
	if s.SecondFactor && s.Auth != "local" {
		return config, fmt.Errorf("REQUIRE_SECOND_FACTOR needs AUTH=local: with AUTH=%s, passkeys are not used", s.Auth)
	}
	if config.PublicURL, err = s.publicURL(); err != nil || s.Auth == "off" {
		return config, err
	}
	config.HasAccounts, config.NeedsSecond = true, s.SecondFactor
	switch s.Auth {
	case "oidc":
		config.OpenID = &access.OpenID{Issuer: s.OIDCIssuer, ClientID: s.OIDCClient, ClientSecret: s.OIDCSecret,
			Site: s.site(listening)}
		if err = config.OpenID.Check(); err == nil {
			config.OpenID.Grants, err = access.ParseGrants("OIDC_GROUP_ROLES", s.OIDCGroups)
		}
	case "ldap":
		config.Directory, err = s.directory()
	default:
		config.Passkeys, err = access.NewPasskeys(s.site(listening))
		if err != nil {
			err = fmt.Errorf("PUBLIC_URL: %w", err)
		} else if config.NeedsSecond && config.Passkeys == nil {
			err = errors.New("REQUIRE_SECOND_FACTOR needs PUBLIC_URL with https and a name such as " +
				"https://wending.example: passkeys are bound to a host name")
		}
	}
	return config, err
}

// directory returns the LDAP directory that people sign in with.
func (s *Settings) directory() (*access.Directory, error) {
	return access.NewDirectory(access.DirectoryConfig{
		URL: s.LDAPURL, StartTLS: s.LDAPStartTLS, CAFile: s.LDAPCAFile, BindDN: s.LDAPBindDN, BindPassword: s.LDAPPassword,
		BaseDN: s.LDAPBaseDN, UserFilter: s.LDAPUsers, GroupBaseDN: s.LDAPGroupDN, GroupFilter: s.LDAPGroups,
		GroupRoles: s.LDAPRoles,
	})
}

// site returns the public address of this site: PUBLIC_URL or, on a local machine, the listening address with localhost
// in place of 127.0.0.1.
func (s *Settings) site(listening string) string {
	if s.PublicURL != "" {
		return strings.TrimRight(s.PublicURL, "/")
	}
	return "http://" + strings.Replace(listening, "127.0.0.1:", "localhost:", 1)
}

// checkExposure returns an error if the pages must not be served at LISTEN_ADDR. Beyond this machine, passwords and
// cookies need HTTPS, and without accounts anybody who can reach the pages could use them.
func (s *Settings) checkExposure() error {
	if (s.TLSCert == "") != (s.TLSKey == "") {
		return errors.New("TLS_CERT_FILE and TLS_KEY_FILE must be set together")
	}
	if listensOnLoopback(s.ListenAddr) {
		return nil
	}
	if s.Auth == "off" {
		if !s.WithoutLogin || len(s.hosts()) == 0 {
			return fmt.Errorf(
				"LISTEN_ADDR is %s, but nobody signs in: set AUTH=local (or ldap or oidc), or, to let anyone who can reach it use "+
					"it, set ALLOW_WITHOUT_LOGIN=1, and ALLOWED_HOSTS to the site's names", s.ListenAddr)
		}
		return nil
	}
	if !strings.HasPrefix(s.PublicURL, "https://") || s.TLSCert == "" && s.Proxies == "" {
		return fmt.Errorf(
			"LISTEN_ADDR is %s and AUTH is %s: beyond this machine, signing in needs HTTPS. Set PUBLIC_URL to the "+
				"site's https:// address, and either TRUSTED_PROXIES to the proxy in front that terminates TLS, or "+
				"TLS_CERT_FILE and TLS_KEY_FILE",
			s.ListenAddr, s.Auth)
	}
	return nil
}

// names returns the host names under which this site can be reached.
func (s *Settings) names() []string {
	names := s.hosts()
	if u, err := url.Parse(s.PublicURL); err == nil && u.Hostname() != "" && s.Auth != "off" {
		names = append(names, strings.ToLower(u.Hostname()))
	}
	return names
}

// offerSetup prints the link for creating the first administrator's account, as long as there is no administrator.
func (p *program) offerSetup(ctx context.Context, stdout io.Writer) error {
	if p.settings.Auth != "local" {
		return nil
	}
	link, err := access.SetupLink(ctx, people.New(p.store), p.settings.site(p.listener.Addr().String()))
	if err != nil || link == "" {
		return err
	}
	_, err = fmt.Fprintf(stdout, "wending: create the first administrator within a day: %s\n", link)
	return err
}
