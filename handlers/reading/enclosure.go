package reading

import (
	"context"
	"encoding/base64"
	"errors"
	"io"

	"github.com/google/uuid"

	"wending/jobs/blob"
	"wending/views/results"
)

// documentPictures is the maximum number of bytes of small images in a document; all other images are only named.
const documentPictures = 32 << 20

// enclosure embeds images in a standalone document.
type enclosure struct {
	files blob.Store
	// room is how many bytes are left for images.
	room int
}

// picturesOf returns the small images of a question's files as data URLs, by asset id.
func (e *enclosure) picturesOf(ctx context.Context, card results.Card) (map[uuid.UUID]string, error) {
	pictures, byKey := map[uuid.UUID]string{}, map[string]string{}
	for _, run := range card.Runs {
		for _, one := range card.Assets[run.ID] {
			if one.ThumbnailKey == nil {
				continue
			}
			picture, isKnown := byKey[*one.ThumbnailKey]
			if !isKnown {
				var err error
				if picture, err = e.dataURL(ctx, *one.ThumbnailKey); err != nil {
					return nil, err
				}
				byKey[*one.ThumbnailKey] = picture
			}
			if e.room -= len(picture); e.room < 0 {
				return pictures, nil
			}
			pictures[one.ID] = picture
		}
	}
	return pictures, nil
}

// dataURL returns a small image as a data URL; empty if the image is gone or there is no room for it.
func (e *enclosure) dataURL(ctx context.Context, key string) (string, error) {
	if e.room <= 0 {
		return "", nil
	}
	file, err := e.files.Open(ctx, key)
	if errors.Is(err, blob.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // only read
	content, err := io.ReadAll(io.LimitReader(file, int64(e.room)))
	if err != nil {
		return "", err
	}
	return "data:image/jpeg;base64," + base64.StdEncoding.EncodeToString(content), nil
}
