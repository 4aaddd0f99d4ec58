package identity_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/people"
	"wending/jobs/identity"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

const goodPassword = "correct horse battery"

// wrong returns the fields that an error names, each with its fault.
func wrong(t *testing.T, err error) map[string]error {
	t.Helper()
	all := []error{err}
	if joined, isJoined := err.(interface{ Unwrap() []error }); isJoined {
		all = joined.Unwrap()
	}
	fields := map[string]error{}
	for _, one := range all {
		var field *identity.FieldError
		require.ErrorAs(t, one, &field)
		fields[field.Field] = field.Err
	}
	return fields
}

func newUser(name string) identity.NewUser {
	return identity.NewUser{Name: name, Password: goodPassword, ProjectID: db.DefaultProject, Role: people.Reviewer}
}

func add(t *testing.T, s identity.Service, n identity.NewUser) people.User {
	t.Helper()
	draft, err := s.DraftUser(t.Context(), n)
	require.NoError(t, err)
	user, err := s.AddUser(t.Context(), draft)
	require.NoError(t, err)
	return user
}

func TestAnAccountIsCheckedAsAWhole(t *testing.T) {
	t.Parallel()
	store, _ := dbtest.Open(t)
	s := identity.New(store)
	user := add(t, s, newUser("  Ａlice "))
	require.Equal(t, "Alice", user.Name)
	members, err := people.New(store).Members(t.Context(), db.DefaultProject)
	require.NoError(t, err)
	require.Len(t, members, 1)
	require.Equal(t, people.Reviewer, members[0].Role)

	_, err = s.DraftUser(t.Context(), identity.NewUser{Name: "token:ci", Password: "short", Role: "emperor"})
	require.Equal(t, map[string]error{"name": people.ErrNameReserved, "password": identity.ErrPasswordShort,
		"role": identity.ErrUnknownRole}, wrong(t, err))
	for name, isSame := range map[string]bool{"alice": true, "АIісе": false} {
		_, err = s.DraftUser(t.Context(), newUser(name))
		require.Equal(t, map[string]error{"name": &identity.TakenError{Other: "Alice", IsSame: isSame}}, wrong(t, err), name)
	}
}

func TestAPasswordHereIsForAccountsOfHere(t *testing.T) {
	t.Parallel()
	store, _ := dbtest.Open(t)
	s := identity.New(store)
	bad, good := "1234567890", "another horse battery"
	user := add(t, s, newUser("Bob"))
	require.Equal(t, map[string]error{"password": identity.ErrPasswordCommon},
		wrong(t, s.ChangeUser(t.Context(), user, identity.Change{Password: &bad})))
	require.NoError(t, s.ChangeUser(t.Context(), user, identity.Change{Password: &good}))

	granted := []people.Membership{{ProjectID: db.DefaultProject, Role: people.Viewer, IsGranted: true}}
	provided, err := s.TakeProvided(t.Context(),
		identity.Provided{Subject: "issuer carol", Names: []string{"Bob", "Bob · carol"}, Memberships: granted})
	require.NoError(t, err)
	require.Equal(t, "Bob · carol", provided.Name, "the best name is another's")
	require.ErrorIs(t, s.ChangeUser(t.Context(), provided, identity.Change{Password: &good}), identity.ErrOfProvider)
}

func TestAProviderOpensNoAccountForNothing(t *testing.T) {
	t.Parallel()
	store, _ := dbtest.Open(t)
	s := identity.New(store)
	p := identity.Provided{Subject: "issuer dan", Names: []string{"Dan"}}
	_, err := s.TakeProvided(t.Context(), p)
	require.ErrorIs(t, err, identity.ErrNoGroup)
	p.IsAdmin = true
	user, err := s.TakeProvided(t.Context(), p)
	require.NoError(t, err)
	p.Names, p.IsAdmin = []string{"Daniel"}, false // the account now exists, although the user is in no group
	again, err := s.TakeProvided(t.Context(), p)
	require.NoError(t, err)
	require.Equal(t, user.ID, again.ID)
	require.Equal(t, "Daniel", again.Name)

	isDisabled := true
	add(t, s, identity.NewUser{Name: "root", Password: goodPassword, IsAdmin: true, ProjectID: db.DefaultProject,
		Role: people.Admin})
	require.NoError(t, s.ChangeUser(t.Context(), again, identity.Change{IsDisabled: &isDisabled}))
	_, err = s.TakeProvided(t.Context(), p)
	require.ErrorIs(t, err, identity.ErrDisabled)
}

func TestATokenMayDoNoMoreThanItsMaker(t *testing.T) {
	t.Parallel()
	store, _ := dbtest.Open(t)
	s := identity.New(store)
	maker := add(t, s, newUser("Eve"))
	n := identity.NewToken{Name: "nightly", ProjectID: db.DefaultProject, Role: people.Editor, Days: 3}
	for name, one := range map[string]struct {
		maker identity.Maker
		isOk  bool
	}{
		"the command line":        {identity.Maker{IsOperator: true}, true},
		"somebody who may less":   {identity.Maker{UserID: maker.ID, Role: people.Reviewer}, false},
		"somebody who may":        {identity.Maker{UserID: maker.ID, Role: people.Editor}, true},
		"a token":                 {identity.Maker{UserID: maker.ID, TokenID: uuid.New(), Role: people.Editor}, false},
		"a token that may manage": {identity.Maker{UserID: maker.ID, TokenID: uuid.New(), Role: people.Admin}, true},
	} {
		_, err := s.DraftToken(one.maker, n)
		require.Equal(t, one.isOk, err == nil, name)
		require.True(t, one.isOk || errors.Is(err, identity.ErrForbidden), name)
	}
	for _, days := range []int{-1, identity.MaxDays + 1} {
		n.Days = days
		_, err := s.DraftToken(identity.Maker{IsOperator: true}, n)
		require.Equal(t, map[string]error{"days": identity.ErrDays}, wrong(t, err))
	}

	n.Days = 0
	draft, err := s.DraftToken(identity.Maker{UserID: maker.ID, Role: people.Editor}, n)
	require.NoError(t, err)
	token, value, err := s.AddToken(t.Context(), draft)
	require.NoError(t, err)
	require.NotEmpty(t, value)
	require.Nil(t, token.ExpiresAt)
	other := uuid.New()
	for name, revoke := range map[string]func() error{
		"another's": func() error {
			_, err := s.RevokeToken(t.Context(), db.DefaultProject, &other, token.ID)
			return err
		},
		"of another project": func() error { _, err := s.RevokeToken(t.Context(), other, nil, token.ID); return err },
	} {
		require.ErrorIs(t, revoke(), db.ErrNotFound, name)
	}
	_, err = s.RevokeToken(t.Context(), db.DefaultProject, &maker.ID, token.ID)
	require.NoError(t, err)
}

func TestAProjectKeepsToItsBounds(t *testing.T) {
	t.Parallel()
	store, _ := dbtest.Open(t)
	s := identity.New(store)
	manager := add(t, s, newUser("Frank"))
	made, err := s.AddProject(t.Context(), " 法务 ", manager.ID)
	require.NoError(t, err)
	require.Equal(t, "法务", made.Name)
	role, err := people.New(store).RoleIn(context.Background(), manager.ID, made.ID)
	require.NoError(t, err)
	require.Equal(t, people.Admin, role)
	_, err = s.AddProject(t.Context(), "法务", uuid.Nil)
	require.Equal(t, map[string]error{"name": people.ErrNameTaken}, wrong(t, err))

	zero, many, cost := 0, int64(identity.MaxDiskBytes+1), "much"
	changed := made
	changed.Name, changed.Lanes, changed.UploadsPerDay, changed.DiskBytes, changed.CostPerMonth = "", &zero, &zero,
		&many, &cost
	_, err = s.ChangeProject(t.Context(), changed)
	require.Equal(t, map[string]error{
		"name": people.ErrNameEmpty, "lanes": identity.ErrQuota, "uploads_per_day": identity.ErrQuota,
		"disk_bytes": identity.ErrQuota, "cost_per_month": identity.ErrCost,
	}, wrong(t, err))

	before, err := s.SetMember(t.Context(), made.ID, manager.ID, people.Viewer)
	require.NoError(t, err)
	require.Equal(t, people.Admin, before)
	_, err = s.SetMember(t.Context(), made.ID, manager.ID, "emperor")
	require.Equal(t, map[string]error{"role": identity.ErrUnknownRole}, wrong(t, err))
}

func TestALinkNeedsAReportAndAnEnd(t *testing.T) {
	t.Parallel()
	store, _ := dbtest.Open(t)
	s := identity.New(store)
	_, _, err := s.AddShare(t.Context(), db.Task{}, "Eve", identity.ToShare{Kind: people.ShareReport, Days: 7})
	require.ErrorIs(t, err, identity.ErrNotFinished)
	_, _, err = s.AddShare(t.Context(), db.Task{HasResults: true}, "Eve", identity.ToShare{Kind: people.ShareReplay})
	require.Equal(t, map[string]error{"days": identity.ErrDays, "question_id": identity.ErrNoReplay}, wrong(t, err))
	_, _, err = s.AddShare(t.Context(), db.Task{HasResults: true}, "Eve", identity.ToShare{Kind: "all", Days: 1})
	require.Equal(t, map[string]error{"kind": identity.ErrUnknownKind}, wrong(t, err))
}
