// Package thumbnail makes small pictures of large ones, within bounds: what a picture claims to be is checked before anything is decoded.
package thumbnail

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	_ "image/gif" // formats that are read
	"image/jpeg"
	_ "image/png"
	"io"
	"sync"

	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp"
)

const (
	// Side is how many pixels a thumbnail has at most in each direction.
	Side = 480
	// maxSide and maxMemory bound what is decoded: pixels in each direction, and the bytes that all of them take.
	maxSide   = 20_000
	maxMemory = 96 << 20
	quality   = 82
)

// ErrTooLarge means that a picture has more pixels than are decoded.
var ErrTooLarge = errors.New("the picture has too many pixels")

// decoding lets one picture be decoded at a time: it takes up to maxMemory.
var decoding sync.Mutex

// Make returns a JPEG of a PNG, JPEG, GIF (its first frame) or WebP, on white where that is transparent.
func Make(picture io.ReadSeeker) ([]byte, error) {
	config, _, err := image.DecodeConfig(picture)
	if err != nil {
		return nil, fmt.Errorf("read a picture's head: %w", err)
	}
	perPixel := int64(4)
	switch config.ColorModel {
	case color.RGBA64Model, color.NRGBA64Model:
		perPixel = 8
	case color.Gray16Model:
		perPixel = 2
	}
	if config.Width < 1 || config.Height < 1 || config.Width > maxSide || config.Height > maxSide || int64(config.Width)*int64(config.Height)*perPixel > maxMemory {
		return nil, ErrTooLarge
	}
	if _, err := picture.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	decoding.Lock()
	defer decoding.Unlock()
	whole, _, err := image.Decode(picture)
	if err != nil {
		return nil, fmt.Errorf("decode a picture: %w", err)
	}
	size := whole.Bounds().Size()
	width, height := size.X, size.Y
	if longest := max(width, height); longest > Side {
		width, height = max(1, width*Side/longest), max(1, height*Side/longest)
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
