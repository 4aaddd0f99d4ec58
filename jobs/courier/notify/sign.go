package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"
)

// secretPrefix is the prefix of Standard Webhooks secrets.
const secretPrefix = "whsec_"

// ErrSecret means that a webhook's secret is not a Standard Webhooks secret.
var ErrSecret = errors.New("a webhook secret must be whsec_ followed by 24 to 64 bytes in base64")

// WebhookKey decodes a webhook's secret: base64 with the prefix whsec_, which may be left out.
func WebhookKey(secret string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, secretPrefix))
	if err != nil || len(key) < 24 || len(key) > 64 {
		return nil, ErrSecret
	}
	return key, nil
}

// SignWebhook returns the signature of a body in the format of Standard Webhooks 1.0: version, comma,
// HMAC-SHA256 in base64.
func SignWebhook(key []byte, id string, at time.Time, body []byte) string {
	return "v1," + sum(key, []byte(id+"."+strconv.FormatInt(at.Unix(), 10)+"."+string(body)))
}

// SignDingTalk returns the timestamp and signature for a DingTalk robot with a secret; the timestamp is in
// milliseconds.
func SignDingTalk(secret string, at time.Time) (timestamp, sign string) {
	timestamp = strconv.FormatInt(at.UnixMilli(), 10)
	return timestamp, sum([]byte(secret), []byte(timestamp+"\n"+secret))
}

// SignFeishu returns the timestamp and signature for a Feishu robot with a secret; the timestamp is in seconds.
// Feishu uses the string to sign as the HMAC key, over an empty text.
func SignFeishu(secret string, at time.Time) (timestamp, sign string) {
	timestamp = strconv.FormatInt(at.Unix(), 10)
	return timestamp, sum([]byte(timestamp+"\n"+secret), nil)
}

func sum(key, text []byte) string {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write(text) // cannot fail
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
