// Package text holds every text of the product in all its languages, and formats numbers, units and times.
package text

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"sync"

	"github.com/nicksnyder/go-i18n/v2/i18n"
	"golang.org/x/text/language"
)

// locales has one catalogue per area of the product and language: <area>.<language>.json.
//
//go:embed locales/*.json
var locales embed.FS

// Languages are the languages of the pages; the first is the product's own.
var Languages = []string{"zh-CN", "en"}

// Catalogue holds every text of the product in all languages.
type Catalogue struct{ languages map[string]*texts }

// texts are the texts of one language.
type texts struct {
	localizer *i18n.Localizer
	// plain caches the texts without arguments that were requested, by key: pages consist mainly of them, and the
	// localizer takes a microsecond for each.
	plain sync.Map
}

// NewCatalogue returns the compiled-in texts, which are read once.
func NewCatalogue() (*Catalogue, error) { return catalogue() }

var catalogue = sync.OnceValues(readCatalogue)

func readCatalogue() (*Catalogue, error) {
	bundle := i18n.NewBundle(language.SimplifiedChinese)
	bundle.RegisterUnmarshalFunc("json", json.Unmarshal)
	files, err := fs.Glob(locales, "locales/*.json")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if _, err := bundle.LoadMessageFileFS(locales, file); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
	}
	c := &Catalogue{languages: map[string]*texts{}}
	for _, lang := range Languages {
		c.languages[lang] = &texts{localizer: i18n.NewLocalizer(bundle, lang)}
	}
	return c, nil
}

// Locale is the language and theme for one response.
type Locale struct {
	Lang string
	// Theme is light, dark, or empty for the system's own.
	Theme     string
	texts     *texts
	catalogue *Catalogue
}

// Locale returns the locale for one of Languages and a theme.
func (c *Catalogue) Locale(lang, theme string) Locale {
	return Locale{Lang: lang, Theme: theme, texts: c.languages[lang], catalogue: c}
}

// Text returns a text of the catalogue and inserts the arguments, which are pairs of a name and a value. An integer
// named Count selects the plural form; all integers are written with separators. A missing key is returned unchanged;
// a test ensures that none is missing.
func (l Locale) Text(key string, args ...any) string {
	if len(args) == 0 {
		return l.plain(key)
	}
	data := map[string]any{}
	for n := 0; n+1 < len(args); n += 2 {
		data[args[n].(string)] = args[n+1]
	}
	return l.TextWith(key, data)
}

func (l Locale) plain(key string) string {
	if text, isKnown := l.texts.plain.Load(key); isKnown {
		return text.(string)
	}
	message, err := l.texts.localizer.Localize(&i18n.LocalizeConfig{MessageID: key})
	if err != nil {
		return key
	}
	l.texts.plain.Store(key, message)
	return message
}

// TextWith is like Text, but takes the arguments as a map, which it does not change.
func (l Locale) TextWith(key string, args map[string]any) string {
	config := &i18n.LocalizeConfig{MessageID: key}
	data := make(map[string]any, len(args))
	for name, value := range args {
		if number, isInt := value.(int); isInt {
			if name == "Count" {
				config.PluralCount = number
			}
			value = Number(number)
		}
		data[name] = value
	}
	config.TemplateData = data
	message, err := l.texts.localizer.Localize(config)
	if err != nil {
		return key
	}
	return message
}

type localeKey struct{}

// WithLocale returns a context for rendering in a locale.
func WithLocale(ctx context.Context, locale Locale) context.Context {
	return context.WithValue(ctx, localeKey{}, locale)
}

// LocaleOf returns the locale of a context made by WithLocale.
func LocaleOf(ctx context.Context) Locale {
	locale, _ := ctx.Value(localeKey{}).(Locale)
	return locale
}

// T is like Locale.Text, in the locale of a context, for templates.
func T(ctx context.Context, key string, args ...any) string { return LocaleOf(ctx).Text(key, args...) }

// In returns the locale in another of Languages.
func (l Locale) In(lang string) Locale {
	return l.catalogue.Locale(lang, l.Theme)
}
