package courier_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/jobs/courier"
)

func TestThumbnailsKeepTheirShapeAndAreBounded(t *testing.T) {
	t.Parallel()
	transparent := image.NewNRGBA(image.Rect(0, 0, 1000, 10))
	var wide, small, animated bytes.Buffer
	require.NoError(t, png.Encode(&wide, transparent))
	require.NoError(t, jpeg.Encode(&small, image.NewGray(image.Rect(0, 0, 20, 30)), nil))
	frame := image.NewPaletted(image.Rect(0, 0, 700, 1400), color.Palette{color.Black, color.White})
	require.NoError(t, gif.EncodeAll(&animated, &gif.GIF{Image: []*image.Paletted{frame, frame}, Delay: []int{1, 1}}))
	for _, test := range []struct {
		file []byte
		size image.Point
	}{{wide.Bytes(), image.Pt(480, 4)}, {small.Bytes(), image.Pt(20, 30)}, {animated.Bytes(), image.Pt(240, 480)}} {
		made, err := courier.Thumbnail(t.Context(), bytes.NewReader(test.file))
		require.NoError(t, err)
		picture, err := jpeg.Decode(bytes.NewReader(made))
		require.NoError(t, err)
		require.Equal(t, test.size, picture.Bounds().Size())
	}
	made, err := courier.Thumbnail(t.Context(), bytes.NewReader(wide.Bytes()))
	require.NoError(t, err)
	picture, err := jpeg.Decode(bytes.NewReader(made))
	require.NoError(t, err)
	r, g, b, _ := picture.At(1, 1).RGBA()
	require.Greater(t, min(r, g, b), uint32(0xf000), "what is transparent is white")
}

// The declared size of an image is checked before memory of that size is allocated.
func TestPicturesThatAreTooLargeAreNotDecoded(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	require.NoError(t, png.Encode(&file, image.NewRGBA(image.Rect(0, 0, 3, 3))))
	for _, size := range [][2]uint32{{1, 1_000_000_000}, {19_000, 19_000}, {30_000, 2}} {
		claims := bytes.Clone(file.Bytes())
		binary.BigEndian.PutUint32(claims[16:], size[0])
		binary.BigEndian.PutUint32(claims[20:], size[1])
		binary.BigEndian.PutUint32(claims[29:], crc32.ChecksumIEEE(claims[12:29]))
		_, err := courier.Thumbnail(t.Context(), bytes.NewReader(claims))
		require.ErrorIs(t, err, courier.ErrPictureTooLarge)
	}
	for _, broken := range [][]byte{nil, []byte("<svg/>"), file.Bytes()[:40]} {
		_, err := courier.Thumbnail(t.Context(), bytes.NewReader(broken))
		require.Error(t, err)
	}
}

// Decoding ends with the context: a small file may take hours.
func TestDecodingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	require.NoError(t, png.Encode(&file, image.NewRGBA(image.Rect(0, 0, 3, 3))))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := courier.Thumbnail(ctx, bytes.NewReader(file.Bytes()))
	require.ErrorIs(t, err, context.Canceled)
}
