package access

import (
	"context"
	"errors"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/people"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/jobs/identity"
	"wending/views/system"
)

// refusalTakes is the minimum duration of a refused sign-in. Without it, the response time would reveal whether the
// directory has an entry against which the password was checked.
const refusalTakes = 250 * time.Millisecond

// errWrong means that no entry has this name and password, or that several entries have the name.
var errWrong = errors.New("wrong name or password")

// try is an attempt to sign in with the directory.
type try struct {
	name, password string
	// counted are the keys under which the attempt has been counted, and own is the key of its account.
	counted []guess
	own     guess
}

// signInWithDirectory signs in with a name and a password of the directory; passwords of local accounts are not
// accepted. A refusal to show on the sign-in page is returned as a request.Fault.
func (h *handler) signInWithDirectory(c echo.Context, login system.Login, password string) error {
	ctx := c.Request().Context()
	soonest := time.After(refusalTakes)
	attempt := &try{name: request.StorableText(login.Name), password: password}
	user, err := h.People.UserNamed(ctx, attempt.name)
	if err != nil && !errors.Is(err, db.ErrNotFound) {
		return err
	}
	// For now the attempt is counted only for this browser or address. It is counted for the account once the directory
	// has found it, because many spellings of a name, and an e-mail address, belong to the same account.
	guesses := h.guesses(c, attempt.name, user)
	if err := h.countTry(c, attempt, guesses[len(guesses)-1:]); err != nil {
		return err
	}
	leave, err := pages.Gates(c).SignIns.Enter(ctx)
	if err != nil {
		return err
	}
	said, err := h.authenticate(c, attempt)
	leave()
	if errors.Is(err, errWrong) {
		select {
		case <-soonest:
		case <-ctx.Done():
		}
		return h.refuseGuess(c, login)
	}
	if err != nil {
		return err
	}
	if err := h.forgive(ctx, attempt.own, attempt.counted...); err != nil {
		return err
	}
	session := people.Session{Method: "password", IsProven: true, Provided: &people.Provided{}}
	return h.enterProvided(c, said, tokens{Login: attempt.name}, session, login.Next)
}

// countTry counts an attempt under those of guesses under which it has not been counted yet, and sets attempt.own to
// the first of guesses. If too many attempts have failed, the error is a fault that says how long to wait.
func (h *handler) countTry(c echo.Context, attempt *try, guesses []guess) error {
	more := slices.DeleteFunc(slices.Clone(guesses), func(one guess) bool { return slices.Contains(attempt.counted, one) })
	wait, err := h.count(c.Request().Context(), more)
	if err != nil {
		return err
	}
	if wait > 0 {
		return tooMany(c, wait)
	}
	attempt.counted, attempt.own = append(attempt.counted, more...), guesses[0]
	return nil
}

// authenticate returns the claims about the person whose name and password were typed, or errWrong. If the directory
// does not answer, the attempt is not counted.
func (h *handler) authenticate(c echo.Context, attempt *try) (said claims, err error) {
	ctx := c.Request().Context()
	about, err := h.find(ctx, attempt)
	if err == nil {
		defer about.end()
		said, err = h.compare(c, attempt, about)
	} else if errors.Is(err, errWrong) {
		if counting := h.countTry(c, attempt, h.guesses(c, attempt.name, people.User{})); counting != nil {
			return said, counting
		}
	}
	away := (*directoryError)(nil)
	if !errors.As(err, &away) {
		return said, err
	}
	h.Log.WarnContext(ctx, "directory not asked, sign-in refused", "error", away.error)
	if err := h.refund(ctx, attempt.counted); err != nil {
		return said, err
	}
	return said, request.NewFault(request.CodeServiceUnavailable).WithMessage("login.provider.silent").WithCause(err)
}

// directoryError means that the directory cannot be reached, or does not answer as expected.
type directoryError struct{ error }

// Unwrap returns the cause.
func (e *directoryError) Unwrap() error { return e.error }

// find looks up the entry for an attempt. It returns errWrong unless there is exactly one.
func (h *handler) find(ctx context.Context, attempt *try) (*consultation, error) {
	if attempt.name == "" || len(attempt.name) > maxLogin || attempt.password == "" ||
		utf8.RuneCountInString(attempt.password) > identity.MaxPassword {
		return nil, errWrong
	}
	about, err := h.Directory.consult(ctx, attempt.name)
	switch {
	case errors.Is(err, errSeveral):
		h.Log.WarnContext(ctx, "sign-in with the directory refused", "name", attempt.name, "error", err)
		return nil, errWrong
	case errors.Is(err, errNobody):
		return nil, errWrong
	case err != nil:
		return nil, &directoryError{err}
	}
	return about, nil
}

// compare has the directory check the attempt's password, and returns the claims about the entry, or errWrong.
func (h *handler) compare(c echo.Context, attempt *try, about *consultation) (said claims, err error) {
	ctx := c.Request().Context()
	if said, err = about.claims(); err != nil {
		return said, &directoryError{err}
	}
	subject := subjectAt(h.Directory, said)
	user, err := h.People.UserOf(ctx, subject)
	if err != nil && !errors.Is(err, db.ErrNotFound) {
		return said, err
	}
	if err := h.countTry(c, attempt, h.guesses(c, "entry "+subject, user)); err != nil {
		return said, err
	}
	isProven, err := about.proves(attempt.password)
	if err != nil {
		return said, &directoryError{err}
	}
	if !isProven {
		return said, errWrong
	}
	return said, nil
}
