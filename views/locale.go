// Package views renders the product's pages from what handlers give it.
package views

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"

	"github.com/nicksnyder/go-i18n/v2/i18n"
	"golang.org/x/text/language"
)

//go:embed locales/*.json
var locales embed.FS

// Languages are what pages are written in; the first is the product's own.
var Languages = []string{"zh-CN", "en"}

// Catalogue holds every text of the product in all languages.
type Catalogue struct{ localizers map[string]*i18n.Localizer }

// NewCatalogue reads the texts that are compiled in.
func NewCatalogue() (*Catalogue, error) {
	bundle := i18n.NewBundle(language.SimplifiedChinese)
	bundle.RegisterUnmarshalFunc("json", json.Unmarshal)
	c := &Catalogue{localizers: map[string]*i18n.Localizer{}}
	for _, lang := range Languages {
		if _, err := bundle.LoadMessageFileFS(locales, "locales/"+lang+".json"); err != nil {
			return nil, fmt.Errorf("read the texts in %s: %w", lang, err)
		}
		c.localizers[lang] = i18n.NewLocalizer(bundle, lang)
	}
	return c, nil
}

// Locale is how one request is answered: its language and theme.
type Locale struct {
	Lang string
	// Theme is light, dark, or empty for the system's.
	Theme     string
	localizer *i18n.Localizer
}

// Locale returns the texts of a language of Languages.
func (c *Catalogue) Locale(lang, theme string) Locale {
	return Locale{Lang: lang, Theme: theme, localizer: c.localizers[lang]}
}

// Text returns a text of the catalogue with the arguments, which are pairs of name and content, put in.
// A key that is missing is shown as it is: a test keeps that from happening.
func (l Locale) Text(key string, args ...any) string {
	data := map[string]any{}
	for n := 0; n+1 < len(args); n += 2 {
		data[args[n].(string)] = args[n+1]
	}
	return l.TextWith(key, data)
}

// TextWith is Text with its arguments in a map.
func (l Locale) TextWith(key string, data map[string]any) string {
	text, err := l.localizer.Localize(&i18n.LocalizeConfig{MessageID: key, TemplateData: data})
	if err != nil {
		return key
	}
	return text
}

type localeKey struct{}

// WithLocale returns a context for rendering in a locale.
func WithLocale(ctx context.Context, locale Locale) context.Context {
	return context.WithValue(ctx, localeKey{}, locale)
}

// LocaleOf returns the locale of a context that WithLocale made.
func LocaleOf(ctx context.Context) Locale {
	locale, _ := ctx.Value(localeKey{}).(Locale)
	return locale
}

// t is the short name of Text in templates.
func t(ctx context.Context, key string, args ...any) string { return LocaleOf(ctx).Text(key, args...) }
