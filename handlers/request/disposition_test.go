package request_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"wending/handlers/request"
)

func TestDownloadNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"A模型V1.2":              `attachment; filename="A__V1.2_report.csv"; filename*=UTF-8''A%E6%A8%A1%E5%9E%8BV1.2_%E8%AF%84%E6%B5%8B%E6%8A%A5%E5%91%8A.csv`,
		"../../etc/pass\r\nwd": `attachment; filename="etcpasswd_report.csv"; filename*=UTF-8''etcpasswd_%E8%AF%84%E6%B5%8B%E6%8A%A5%E5%91%8A.csv`,
		"///":                  `attachment; filename="task_report.csv"; filename*=UTF-8''task_%E8%AF%84%E6%B5%8B%E6%8A%A5%E5%91%8A.csv`,
		`a"b; filename=x`:      `attachment; filename="ab__filename_x_report.csv"; filename*=UTF-8''ab%3B%20filename%3Dx_%E8%AF%84%E6%B5%8B%E6%8A%A5%E5%91%8A.csv`,
	} {
		require.Equal(t, want, request.ReportDisposition(name, "csv"), name)
	}
}
