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

// documentPictures is the maximum total size, in bytes, of the thumbnails in a document; all other images are only
// named.
const documentPictures = 32 << 20

// enclosure embeds thumbnails in a document that is a single file.
type enclosure struct {
	files blob.Store
	// room is how many more bytes of thumbnails the document may contain.
	room int
}

// picturesOf maps the ids of the images that a question's runs produced to their thumbnails as data URLs.
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

// dataURL returns a thumbnail as a data URL; empty if the thumbnail was deleted or there is no room for it.
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
