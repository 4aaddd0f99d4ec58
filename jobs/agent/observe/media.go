package observe

import (
	"net/url"
	"path"
	"regexp"
	"strings"

	"wending/db/event"
)

// mediaTypes maps file extensions to the media types of files that agents produce.
var mediaTypes = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
	".bmp":  "image/bmp",
	".avif": "image/avif", ".svg": "image/svg+xml",
	".mp3": "audio/mpeg", ".wav": "audio/wav", ".ogg": "audio/ogg", ".m4a": "audio/mp4", ".flac": "audio/flac",
	".mp4": "video/mp4", ".webm": "video/webm", ".mov": "video/quicktime",
	".pdf": "application/pdf", ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation", ".zip": "application/zip",
}

// extensionOf returns the usual file extension of a media type, with its dot; empty if none is known.
func extensionOf(mediaType string) string {
	if mediaType == "image/jpeg" {
		return ".jpg"
	}
	for extension, known := range mediaTypes {
		if known == mediaType {
			return extension
		}
	}
	return ""
}

// KindOf returns the kind of asset that a media type belongs to; event.File for all but images, audio and video.
func KindOf(mediaType string) string {
	switch kind, _, _ := strings.Cut(mediaType, "/"); kind {
	case event.Image, event.Audio, event.Video:
		return kind
	}
	return event.File
}

// kindOf returns the likely kind of a file, judging by its media type or, if the type is unknown, by its URL.
func kindOf(mediaType, address string) string {
	if mediaType != "" {
		return KindOf(mediaType)
	}
	return KindOf(mediaTypeOf(address))
}

// mediaTypeOf returns the media type that a URL's path implies; empty if it implies none.
func mediaTypeOf(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return mediaTypes[strings.ToLower(path.Ext(parsed.Path))]
}

// Images in Markdown, and lines that consist of a URL: bare, in angle brackets or as a Markdown link.
var (
	markdownImage = regexp.MustCompile(`!\[[^\]\n]{0,1000}\]\(\s*<?((?:https?://|data:)[^\s)>]+)>?[^)\n]{0,300}\)`)
	lonelyURL     = regexp.MustCompile(
		`(?m)^[ \t]*(?:[-*+][ \t]+)?(?:\[[^\]\n]{0,1000}\]\()?<?(https?://[^\s<>)"']+)>?\)?[ \t]*\r?$`)
)

// Answer reports the files that an answer's text names: images in Markdown, and media URLs alone on a line.
func (w *Watcher) Answer(text []byte) {
	for _, found := range markdownImage.FindAllSubmatch(text, maxAssets) {
		w.file(false, event.Data{Kind: event.Image, URL: string(found[1])})
	}
	for _, found := range lonelyURL.FindAllSubmatch(text, maxAssets) {
		if address := string(found[1]); mediaTypeOf(address) != "" {
			w.file(false, event.Data{URL: address})
		}
	}
}
