package answers

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
)

var errLater = errors.New("x")

const inspectHeader = "header.json"

func (b *builder) readPromptfoo(ctx context.Context, content []byte) error { return errLater }
func (b *builder) readInspect(ctx context.Context, content []byte) error   { return errLater }
func (b *builder) readOpenAI(ctx context.Context, content []byte) error    { return errLater }

var _ = json.Valid
var _ = strings.TrimSpace
