package dbtest

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The accounts of a Slapd. The service account may read everything except passwords; people may read nothing.
const (
	SlapdBase            = "dc=example,dc=com"
	SlapdAdmin           = "cn=admin," + SlapdBase
	SlapdService         = "cn=wending," + SlapdBase
	SlapdServicePassword = "the-service's-secret"
)

// Slapd is OpenLDAP's server with a directory of its own.
type Slapd struct {
	// Plain and Secure are its addresses: ldap://, where StartTLS is offered, and ldaps://.
	Plain, Secure string
	// CAFile holds its certificate (PEM), which is valid for 127.0.0.1 and not for localhost.
	CAFile string

	command *exec.Cmd
}

// slapdConfig is slapd.conf; FOLDER is replaced. When a group changes, OpenLDAP updates the memberOf attributes of its
// members.
const slapdConfig = `
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
moduleload memberof
moduleload ppolicy
TLSCertificateFile FOLDER/cert.pem
TLSCertificateKeyFile FOLDER/key.pem
database mdb
suffix ` + SlapdBase + `
rootdn ` + SlapdAdmin + `
rootpw ` + SlapdServicePassword + `
directory FOLDER
overlay memberof
overlay ppolicy
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact=` + SlapdService + ` read by * none
`

const slapdRoots = `
dn: ` + SlapdBase + `
objectClass: dcObject
objectClass: organization
o: Example
dc: example

dn: ` + SlapdService + `
objectClass: organizationalRole
objectClass: simpleSecurityObject
cn: wending
userPassword: ` + SlapdServicePassword + `
`

// StartSlapd starts OpenLDAP with the given entries (LDIF) below SlapdBase. The server is stopped when the test ends.
func StartSlapd(t testing.TB, ldif string) *Slapd {
	t.Helper()
	installed := "/usr/sbin/slapd" // not in everybody's PATH
	if _, err := os.Stat(installed); err != nil {
		installed = Need(t, "slapd")
	}
	dir := Folder(t)
	// A copy, because AppArmor confines the installed program to its own folders.
	binary := filepath.Join(dir, "slapd")
	program, err := os.ReadFile(installed)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key := SelfSigned(t, "127.0.0.1")
	for name, content := range map[string][]byte{
		"slapd": program, "cert.pem": certificate, "key.pem": key, "entries.ldif": []byte(slapdRoots + "\n" + ldif),
		"slapd.conf": []byte(strings.ReplaceAll(slapdConfig, "FOLDER", dir)),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	config := filepath.Join(dir, "slapd.conf")
	output, err := exec.Command(binary, "-Tadd", "-f", config, "-l", filepath.Join(dir, "entries.ldif")).CombinedOutput()
	if err != nil {
		t.Fatalf("slapadd: %v: %s", err, output)
	}
	plain, secure := FreeAddress(t), FreeAddress(t)
	s := &Slapd{Plain: "ldap://" + plain, Secure: "ldaps://" + secure, CAFile: filepath.Join(dir, "cert.pem")}
	s.command = exec.Command(binary, "-d", "0", "-f", config, "-h", s.Plain+" "+s.Secure)
	var said bytes.Buffer
	s.command.Stderr = &said
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	for _, address := range []string{plain, secure} {
		Await(t, 10*time.Second, "slapd at "+address, func() bool {
			connection, err := net.Dial("tcp", address)
			return err == nil && connection.Close() == nil
		})
	}
	return s
}

// Stop ends the server.
func (s *Slapd) Stop() {
	_ = s.command.Process.Kill()
	_ = s.command.Wait()
}
