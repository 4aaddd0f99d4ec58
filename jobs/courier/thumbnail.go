package courier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	_ "image/gif" // the formats that can be decoded
	"image/jpeg"
	_ "image/png"
	"io"
	"sync"
	"time"

	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp"
)

const (
	// ThumbnailSide is the maximum size of a thumbnail in each direction, in pixels.
	ThumbnailSide = 480
	// maxSide and maxMemory limit the decoded image: its size in each direction in pixels, and the memory for all
	// pixels in bytes.
	maxSide   = 20_000
	maxMemory = 192 << 20
	quality   = 82
)

// ErrPictureTooLarge means that an image has too many pixels to be decoded.
var ErrPictureTooLarge = errors.New("the picture has too many pixels")

// decoding allows one image to be decoded at a time, because each may take maxMemory.
var decoding sync.Mutex

// decodeFor is the maximum duration of decoding: a small file can require hours of work.
const decodeFor = 10 * time.Second

// impatient is a reader that fails once the context has ended.
type impatient struct {
	ctx context.Context
	io.Reader
}

func (i impatient) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.Reader.Read(p[:min(len(p), 4<<10)])
}

// Thumbnail returns a small JPEG of a PNG, JPEG, GIF (its first frame) or WebP; transparent parts become white.
func Thumbnail(ctx context.Context, picture io.ReadSeeker) ([]byte, error) {
	config, format, err := image.DecodeConfig(picture)
	if err != nil {
		return nil, fmt.Errorf("read a picture's header: %w", err)
	}
	perPixel := int64(4)
	if format == "jpeg" {
		perPixel = 16 // progressive images keep their coefficients in memory
	}
	switch config.ColorModel {
	case color.RGBA64Model, color.NRGBA64Model:
		perPixel = 8
	case color.Gray16Model:
		perPixel = 2
	}
	if config.Width < 1 || config.Height < 1 || config.Width > maxSide || config.Height > maxSide ||
		int64(config.Width)*int64(config.Height)*perPixel > maxMemory {
		return nil, ErrPictureTooLarge
	}
	if _, err := picture.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	decoding.Lock()
	defer decoding.Unlock()
	ctx, cancel := context.WithTimeout(ctx, decodeFor)
	defer cancel()
	whole, _, err := image.Decode(impatient{ctx, picture})
	if ctx.Err() != nil {
		return nil, fmt.Errorf("decode a picture: %w", ctx.Err())
	}
	if err != nil {
		return nil, fmt.Errorf("decode a picture: %w", err)
	}
	size := whole.Bounds().Size()
	width, height := size.X, size.Y
	if longest := max(width, height); longest > ThumbnailSide {
		width, height = max(1, width*ThumbnailSide/longest), max(1, height*ThumbnailSide/longest)
	}
	small := image.NewRGBA(image.Rect(0, 0, width, height))
	draw.Draw(small, small.Bounds(), image.White, image.Point{}, draw.Src)
	draw.ApproxBiLinear.Scale(small, small.Bounds(), whole, whole.Bounds(), draw.Over, nil)
	var made bytes.Buffer
	if err := jpeg.Encode(&made, small, &jpeg.Options{Quality: quality}); err != nil {
		return nil, fmt.Errorf("write a thumbnail: %w", err)
	}
	return made.Bytes(), nil
}
