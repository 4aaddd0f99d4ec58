package event

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// A part is the stored form of a sequence of events: first their numbers, types, times and lengths, column by column,
// because similar values compress well if they are adjacent; then their contents, plain text for text events and JSON
// for others. The first byte records whether the rest is compressed.
const (
	isPlain  = 0
	isPacked = 1
)

// maxPart is the maximum size of an unpacked part in bytes.
const maxPart = 64 << 20

var packer = sync.OnceValue(func() *zstd.Encoder {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false),
		zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err) // this cannot fail: the options are constant
	}
	return encoder
})

var unpacker = sync.OnceValue(func() *zstd.Decoder {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(maxPart))
	if err != nil {
		panic(err)
	}
	return decoder
})

// Pack encodes consecutive events as a part.
func Pack(events []Event) ([]byte, error) {
	if len(events) == 0 {
		return nil, nil
	}
	said := make([]string, len(events))
	size := 2 * binary.MaxVarintLen64
	for n, one := range events {
		said[n] = one.Data.Text
		if !one.isText() {
			text, err := json.Marshal(one.Data)
			if err != nil {
				return nil, fmt.Errorf("pack an event: %w", err)
			}
			said[n] = string(text)
		}
		size += len(said[n]) + 1 + 2*binary.MaxVarintLen32
	}
	plain := binary.AppendUvarint(make([]byte, 0, size), uint64(len(events)))
	plain = binary.AppendUvarint(plain, uint64(events[0].Seq))
	before := 0
	for _, one := range events {
		plain = append(plain, codeOf(one))
	}
	for _, one := range events {
		plain = binary.AppendVarint(plain, int64(one.AtMS-before))
		before = one.AtMS
	}
	for _, text := range said {
		plain = binary.AppendUvarint(plain, uint64(len(text)))
	}
	for _, text := range said {
		plain = append(plain, text...)
	}
	packed := packer().EncodeAll(plain, []byte{isPacked})
	if len(packed) > len(plain) {
		return append([]byte{isPlain}, plain...), nil
	}
	return packed, nil
}

// replacing marks a piece of text that is stored as JSON, because it replaces all earlier pieces.
const replacing = 0x80

func codeOf(e Event) byte {
	for n, kind := range Types {
		if kind == e.Type {
			if e.Data.Replaces {
				return byte(n) | replacing
			}
			return byte(n)
		}
	}
	return byte(len(Types) - 1)
}

var errDamaged = errors.New("stored events are damaged")

// Unpack decodes a part.
func Unpack(part []byte) (events []Event, err error) {
	if len(part) == 0 {
		return nil, nil
	}
	plain := part[1:]
	if part[0] == isPacked {
		if plain, err = unpacker().DecodeAll(plain, nil); err != nil {
			return nil, fmt.Errorf("%w: %w", errDamaged, err)
		}
	}
	r := reader{rest: plain}
	count, seq := r.number(), r.number()
	if r.failed || count > uint64(len(plain)) {
		return nil, errDamaged
	}
	events = make([]Event, count)
	codes := r.bytes(count)
	if r.failed {
		return nil, errDamaged
	}
	at := 0
	for n := range events {
		at += r.signed()
		code := int(codes[n] &^ replacing)
		if code >= len(Types) {
			return nil, errDamaged
		}
		events[n] = Event{Seq: int(seq) + n, AtMS: at, Type: Types[code]}
		events[n].Data.Replaces = codes[n]&replacing != 0
	}
	lengths := make([]uint64, count)
	for n := range lengths {
		lengths[n] = r.number()
	}
	for n := range events {
		text := r.bytes(lengths[n])
		if r.failed {
			return nil, errDamaged
		}
		if events[n].isText() {
			events[n].Data.Text = string(text)
		} else if err := json.Unmarshal(text, &events[n].Data); err != nil {
			return nil, fmt.Errorf("%w: %w", errDamaged, err)
		}
	}
	return events, nil
}

type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) number() uint64 {
	value, size := binary.Uvarint(r.rest)
	r.skip(size)
	return value
}

func (r *reader) signed() int {
	value, size := binary.Varint(r.rest)
	r.skip(size)
	return int(value)
}

func (r *reader) skip(size int) {
	if size <= 0 {
		r.failed, r.rest = true, nil
		return
	}
	r.rest = r.rest[size:]
}

func (r *reader) bytes(count uint64) []byte {
	if count > uint64(len(r.rest)) {
		r.failed = true
		return nil
	}
	text := r.rest[:count]
	r.rest = r.rest[count:]
	return text
}
